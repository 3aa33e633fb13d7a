"""Hanabi: hints, tokens, the end of the game, and what a seat may not see."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from earl_envs.games.hanabi import Hanabi, Table
from earl_envs.games.hanabi_cards import Held
from hypothesis import given, settings
from hypothesis import strategies as st

GAME = Hanabi()
R1, R2, R3, G1, G2, G3 = ((colour, rank) for colour in range(2) for rank in range(3))
ALL = frozenset([R1, R2, R3, G1, G2, G3])


def table(*, own, partner, deck=(G3,), fireworks=(0, 0), **changes) -> Table:
    """Lay out a table that has given no hints about the hands, seat 0 to move."""
    hands = tuple(tuple(Held(card=card, possible=ALL) for card in hand) for hand in (own, partner))
    start = Table(deck=deck, hands=hands, fireworks=fireworks, num_hints=3, num_lives=2)
    return replace(start, **changes)


def play(state: Table, name: str) -> Table:
    (action,) = (a for a in GAME.legal(state) if GAME.move_name(state, a) == f"[{name}]")
    return GAME.apply(state, action)


def cards(state: Table) -> Counter:
    """Count all cards, wherever they are."""
    played = [(c, rank) for c, height in enumerate(state.fireworks) for rank in range(height)]
    held = [held.card for hand in state.hands for held in hand]
    return Counter([*state.deck, *state.discards, *held, *played])


def test_text_shows_the_table_and_hides_the_own_cards():
    state = table(own=(R1, G2), partner=(G1, R2), discards=(G2, R1), fireworks=(2, 0))
    assert GAME.text(state, 0) == (
        "Fireworks R2 G0, discards R1 G2\n"
        "Hints 3, lives 2, cards to draw 1\n"
        "Partner 1:G1 (RG123) 2:R2 (RG123)\n"
        "You 1:RG123 2:RG123"
    )


def test_a_hint_tells_all_cards_of_its_kind_and_the_others_too():
    state = play(table(own=(R1, G2), partner=(G1, R2)), "hint R")
    assert GAME.text(state, 1).splitlines()[-2:] == [
        "You 1:G123 2:R123",
        "Last move: partner hint R",
    ]
    assert state.num_hints == 2
    state = play(play(state, "hint 1"), "hint 1")
    assert GAME.text(state, 1).splitlines()[-2:] == ["You 1:G1 2:R23", "Last move: partner hint 1"]
    assert "Partner 1:R1 (RG1) 2:G2 (RG23)" in GAME.text(state, 1)
    assert GAME.text(state, 0).endswith("Last move: you hint 1")


def test_hints_must_touch_a_card_and_need_a_token_and_discards_need_a_spent_one():
    state = table(own=(R1, G2), partner=(G1, G2))
    names = [GAME.move_name(state, action) for action in GAME.legal(state)]
    assert names == ["[play 1]", "[play 2]", "[hint G]", "[hint 1]", "[hint 2]"]
    state = replace(state, num_hints=0)
    names = [GAME.move_name(state, action) for action in GAME.legal(state)]
    assert names == ["[play 1]", "[play 2]", "[discard 1]", "[discard 2]"]


def test_a_fitting_card_is_played_and_a_new_one_comes_last():
    state = play(table(own=(R1, G2), partner=(G1, R2)), "play 1")
    assert state.fireworks == (1, 0)
    assert [held.card for held in state.hands[0]] == [G2, G3]
    assert state.deck == ()
    assert GAME.text(state, 1).endswith("Last move: partner play 1: R1")


def test_a_card_that_does_not_fit_costs_a_life_and_the_last_life_the_game():
    state = play(table(own=(R2, G2), partner=(G3, R2), fireworks=(0, 1)), "play 1")
    assert (state.num_lives, state.discards, state.fireworks) == (1, (R2,), (0, 1))
    assert GAME.text(state, 1).endswith("Last move: partner play 1: R2 does not fit")
    assert GAME.returns(state) is None
    state = play(state, "play 1")
    assert GAME.returns(state) == (0.0, 0.0)
    assert GAME.legal(state) == []


def test_discards_and_complete_fireworks_give_back_a_hint():
    state = table(own=(R3, G2), partner=(G1, R2), fireworks=(2, 0), num_hints=1)
    assert play(state, "play 1").num_hints == 2
    assert play(state, "discard 1").num_hints == 2
    assert play(replace(state, num_hints=3), "play 1").num_hints == 3
    assert play(replace(state, fireworks=(2, 1)), "play 2").num_hints == 1


def test_both_move_once_more_after_the_last_card_is_drawn():
    state = play(table(own=(R1, G2), partner=(G1, R2), num_hints=2), "discard 1")
    state = play(play(state, "hint G"), "hint 1")
    assert GAME.returns(state) == (0.0, 0.0)
    state = play(table(own=(R1, G2), partner=(G1, R2)), "play 1")
    state = play(state, "play 1")
    assert GAME.returns(state) is None
    assert GAME.returns(play(state, "hint R")) == (2 / 6, 2 / 6)


def test_complete_fireworks_end_the_game_with_full_score():
    state = table(own=(G3, R1), partner=(R1, R2), fireworks=(3, 2), deck=(R1, R2))
    assert GAME.returns(play(state, "play 1")) == (1.0, 1.0)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_cards_are_neither_lost_nor_made_and_fireworks_only_grow(seed):
    rng = np.random.default_rng(seed)
    state = GAME.initial(rng)
    assert cards(state) == {R1: 3, R2: 2, R3: 1, G1: 3, G2: 2, G3: 1}
    while GAME.returns(state) is None:
        reached = GAME.apply(state, int(rng.choice(GAME.legal(state))))
        assert cards(reached) == cards(state)
        assert all(a <= b for a, b in zip(state.fireworks, reached.fireworks, strict=True))
        assert 0 <= reached.num_hints <= 3
        for hand in reached.hands:
            assert all(held.card in held.possible for held in hand)
        state = reached


def test_full_score_is_reached_by_players_who_peek():
    def move(state: Table) -> str:
        hand = [held.card for held in state.hands[state.seat]]
        for place, (colour, rank) in enumerate(hand):
            if state.fireworks[colour] == rank:
                return f"play {place + 1}"
        if state.num_hints == 3:
            return f"hint {state.hands[1 - state.seat][0].card[1] + 1}"
        spare = [
            place
            for place, (colour, rank) in enumerate(hand)
            if rank < state.fireworks[colour] or hand.count((colour, rank)) > 1
        ]
        return f"discard {(spare or [0])[0] + 1}"

    scores: list[float] = []
    for seed in range(40):
        state = GAME.initial(np.random.default_rng(seed))
        while GAME.returns(state) is None:
            state = play(state, move(state))
        scores.append(GAME.returns(state)[0])
    assert max(scores) == 1.0
    assert np.mean(scores) > 0.8


def test_own_cards_show_in_neither_text_nor_planes():
    mine = table(own=(R1, G2), partner=(G1, R2), deck=(R3, G3))
    other = table(own=(G3, R3), partner=(G1, R2), deck=(G2, R1))
    assert GAME.text(mine, 0) == GAME.text(other, 0)
    assert GAME.text(mine, 1) != GAME.text(other, 1)
    np.testing.assert_array_equal(GAME.planes(mine, 0), GAME.planes(other, 0))
    assert (GAME.planes(mine, 1) != GAME.planes(other, 1)).any()


def test_resampled_hands_fit_the_hints_and_are_all_equally_likely():
    state = table(own=(R1, R2), partner=(G1, G1), deck=(R1, G2, R3), seat=1)
    state = replace(play(state, "hint R"), seat=0)
    rng = np.random.default_rng(0)
    hands = Counter(
        tuple(held.card for held in GAME.resample(state, 0, rng).hands[0]) for _ in range(3_000)
    )
    # Unseen are R1 twice, R2, R3 and G2; two red cards in order are 12 draws, 2 of them R1 R1.
    assert set(hands) == {(a, b) for a in (R1, R2, R3) for b in (R1, R2, R3)} - {(R2, R2), (R3, R3)}
    assert hands[R1, R1] == pytest.approx(3_000 * 2 / 12, rel=0.15)
    assert hands[R2, R3] == pytest.approx(3_000 * 1 / 12, rel=0.2)
    assert cards(GAME.resample(state, 0, rng)) == cards(state)


def test_planes_in_order():
    state = table(own=(R1, G2), partner=(G1, R2), fireworks=(2, 0), discards=(R1, R1), seat=1)
    state = replace(play(state, "hint 1"), num_hints=1)
    planes = GAME.planes(state, 0).tolist()
    full, none = [[1, 1, 1], [1, 1, 1]], [[0, 0, 0], [0, 0, 0]]
    assert planes[0] == [[1, 1, 0], [0, 0, 0]]
    assert planes[1:4] == [[[1, 0, 0], [0, 0, 0]], [[1, 0, 0], [0, 0, 0]], none]
    assert planes[4:6] == [[[1, 0, 0], [1, 0, 0]], [[0, 1, 1], [0, 1, 1]]]
    assert planes[6:8] == [[[0, 0, 0], [1, 0, 0]], [[0, 1, 0], [0, 0, 0]]]
    assert planes[8:10] == [full, full]
    assert planes[10:] == [full, none, none, full, full]
