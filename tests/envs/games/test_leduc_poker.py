"""Leduc poker: the whole game tree, against OpenSpiel and the numbers in the literature."""

from collections.abc import Iterator
from itertools import permutations

import numpy as np
import pytest
from earl_envs.games.leduc_poker import Deal, LeducPoker

pyspiel = pytest.importorskip("pyspiel")

GAME = LeducPoker()
J, Q, K = 0, 2, 4  # one suit; + 1 for the other
FOLD, CALL, RAISE = range(3)


def complete(*dealt: int) -> tuple[int, ...]:
    return (*dealt, *(card for card in range(6) if card not in dealt))


DEALS = [complete(*dealt) for dealt in permutations(range(6), 3)]


def tree(state: Deal) -> Iterator[Deal]:
    yield state
    for action in GAME.legal(state):
        yield from tree(GAME.apply(state, action))


def test_deals_are_the_120_orders_of_two_hands_and_a_table_card():
    rng = np.random.default_rng(0)
    assert {complete(*GAME.initial(rng).deck[:3]) for _ in range(3_000)} == set(DEALS)
    assert len(DEALS) == 120


def test_tree_has_the_known_288_information_sets():
    # 144 per player, ranks told apart and suits not.
    seen: dict[int, set[str]] = {0: set(), 1: set()}
    for deck in DEALS:
        for state in tree(Deal(deck)):
            if GAME.returns(state) is None:
                seen[GAME.seat(state)].add(GAME.text(state, GAME.seat(state)))
    assert [len(texts) for texts in seen.values()] == [144, 144]


@pytest.mark.parametrize("deck", DEALS[::7], ids=str)
def test_openspiel_has_the_same_tree(deck):
    def compare(state: Deal, peer) -> None:
        if len(state.rounds) == 2 and peer.is_chance_node():
            peer = peer.child(deck[2])
        if peer.is_terminal():
            assert list(GAME.returns(state)) == peer.returns()
            return
        assert GAME.legal(state) == peer.legal_actions()
        assert GAME.seat(state) == peer.current_player()
        for action in GAME.legal(state):
            compare(GAME.apply(state, action), peer.child(action))

    peer = pyspiel.load_game("leduc_poker").new_initial_state()
    compare(Deal(deck), peer.child(deck[0]).child(deck[1]))


def test_most_expensive_game_costs_min_return():
    all_in = (CALL, RAISE, RAISE, CALL)
    assert GAME.returns(Deal(complete(K, Q, J), (all_in, all_in))) == (13.0, -13.0)
    returns = [GAME.returns(state) for deck in DEALS for state in tree(Deal(deck))]
    assert min(min(scores) for scores in returns if scores) == GAME.min_return
    assert GAME.max_moves == 8


@pytest.mark.parametrize(
    ("dealt", "returns"),
    [
        ((K, Q, J), (1.0, -1.0)),
        ((J, K, Q), (-1.0, 1.0)),
        ((J, K, J + 1), (1.0, -1.0)),
        ((K, J, J + 1), (-1.0, 1.0)),
        ((Q, Q + 1, K), (0.0, 0.0)),
    ],
)
def test_a_pair_with_the_table_beats_the_higher_card(dealt, returns):
    checked = (CALL, CALL)
    assert GAME.returns(Deal(complete(*dealt), (checked, checked))) == returns


@pytest.mark.parametrize(
    ("rounds", "returns"),
    [
        (((RAISE, FOLD),), (1.0, -1.0)),
        (((CALL, RAISE, FOLD),), (-1.0, 1.0)),
        (((RAISE, RAISE, FOLD),), (-3.0, 3.0)),
        (((RAISE, CALL), (RAISE, FOLD)), (3.0, -3.0)),
        (((RAISE, RAISE, CALL), (CALL, RAISE, RAISE, FOLD)), (9.0, -9.0)),
    ],
)
def test_a_fold_costs_the_chips_put_in_so_far(rounds, returns):
    assert GAME.returns(Deal(complete(J, K, Q), rounds)) == returns


def test_text_tells_cards_chips_and_all_bets():
    state = Deal(complete(J, K, Q), ((CALL, RAISE, CALL), (CALL, RAISE)))
    assert GAME.text(state, 0) == (
        "Your card J, table Q\n"
        "Chips in the pot: you 3, opponent 7\n"
        "Round 1: you check, opponent bet, you call\n"
        "Round 2: you check, opponent bet"
    )
    assert [GAME.move_name(state, a) for a in GAME.legal(state)] == ["[fold]", "[call]", "[raise]"]
    assert GAME.text(Deal(state.deck), 1) == (
        "Your card K, table -\nChips in the pot: you 1, opponent 1\nRound 1: -"
    )


def test_the_other_card_is_shown_at_a_showdown_only():
    checked = (CALL, CALL)
    shown = GAME.text(Deal(complete(J, K, Q), (checked, checked)), 0)
    assert shown.endswith("Opponent's card K")
    folded = GAME.text(Deal(complete(J, K, Q), ((RAISE, FOLD),)), 0)
    assert "K" not in folded
    assert "Q" not in folded


def test_resampling_deals_every_unseen_card():
    rng = np.random.default_rng(0)
    first = [GAME.resample(Deal(complete(J, K, Q)), 0, rng).deck for _ in range(500)]
    assert {deck[:3] for deck in first} == {deal[:3] for deal in DEALS if deal[0] == J}
    second = Deal(complete(J, K, Q), ((CALL, CALL), ()))
    later = [GAME.resample(second, 1, rng).deck for _ in range(200)]
    assert {deck[:3] for deck in later} == {(c, K, Q) for c in range(6) if c not in (K, Q)}


def test_planes_are_seat_ranks_and_actions():
    state = Deal(complete(J, K, Q), ((RAISE, CALL), (CALL,)))
    (rows,) = GAME.planes(state, 1).tolist()
    assert rows[:3] == [[0, 1, 0], [0, 0, 1], [0, 1, 0]]
    assert rows[3:7] == [[0, 0, 1], [0, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert rows[7:] == [[0, 1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_redrawn_cards_do_not_depend_on_the_hidden_order():
    game = LeducPoker()
    for rounds in (((),), ((1, 1), ())):
        seen = (0, 4, 2, 1, 3, 5), (0, 5, 2, 4, 1, 3)
        drawn = [game.resample(Deal(deck, rounds), 0, np.random.default_rng(7)) for deck in seen]
        assert drawn[0] == drawn[1]
