"""Games that show too little, too much, or the wrong thing are caught."""

import numpy as np
import pytest
from earl_envs.games.kuhn_poker import KuhnPoker
from earl_envs.games.tic_tac_toe import TicTacToe


class Cards:
    """Mixed into Stones: each seat holds a card from 0 to 4 that the other does not see."""

    def initial(self, rng):
        return 5, 0, int(rng.integers(5)), int(rng.integers(5))

    def apply(self, state, action):
        return (state[0] - action - 1, 1 - state[1], *state[2:])

    def returns(self, state):
        if state[0]:
            return None
        return (1.0, -1.0) if state[2] > state[3] else (-1.0, 1.0)

    def text(self, state, seat):
        return f"{state[0]} stones, your card {state[2 + seat]}"

    def resample(self, state, seat, rng):
        cards = [*state[2:]]
        cards[1 - seat] = int(rng.integers(5))
        return (*state[:2], *cards)


@pytest.mark.parametrize("check", ["texts", "planes", "resample"])
def test_honest_games_pass(check, stones, findings_of):
    class Honest(Cards, stones):
        pass

    for game_class in (stones, Honest, TicTacToe, KuhnPoker):
        assert findings_of(check, game_class) == []


@pytest.mark.parametrize("text", ["", "  \n", "\x1b[31m5 stones", None])
def test_a_text_that_shows_nothing_or_control_characters_is_caught(text, stones, findings_of):
    class Mute(stones):
        def text(self, state, seat):
            return text if state[0] == 0 and seat == 1 else super().text(state, seat)

    (found, *_) = findings_of("texts", Mute)
    assert found.startswith("text() for seat 1 must ")


def test_a_text_as_long_as_a_book_is_caught(stones, findings_of):
    class Tells(stones):
        def text(self, state, seat):
            return "x" * 100_000

    (found,) = findings_of("texts", Tells)
    assert found.startswith("text() for seat 0 has 100000 characters (limit 10000)")
    assert len(found) < 500


def test_a_text_that_raises_after_the_end_is_caught(stones, findings_of):
    class Breaks(stones):
        def text(self, state, seat):
            return f"{100 // state[0]} percent"

    (found, *_) = findings_of("texts", Breaks)
    assert found.startswith("text() for seat 0 raises ZeroDivisionError")


@pytest.mark.parametrize(
    ("planes", "wrong"),
    [
        (lambda left: np.zeros((1, left + 1, 1), np.uint8), "must always have one shape"),
        (lambda left: np.zeros((1, 1, 1), np.float32), "must be uint8, got float32"),
        (lambda left: [[[left]]], "must be uint8, got list"),
        (lambda left: np.zeros((1, 1, 1), np.uint8) if left > 2 else None, "one shape, (1, 1, 1)"),
        (
            lambda left: np.zeros((1, 1, 1), np.uint8) if left else 1 // left,
            "raises ZeroDivisionError",
        ),
    ],
)
def test_planes_that_vary_or_are_none_are_caught(planes, wrong, stones, findings_of):
    class Odd(stones):
        def planes(self, state, seat):
            return planes(state[0])

    (found, *_) = findings_of("planes", Odd)
    assert wrong in found


def test_a_resample_that_changes_what_its_seat_sees_is_caught(stones, findings_of):
    class Redeals(Cards, stones):
        def resample(self, state, seat, rng):
            return (*state[:2], int(rng.integers(5)), int(rng.integers(5)))

    (found, *_) = findings_of("resample", Redeals)
    assert "can tell the state of resample() by its text(): '5 stones, your card " in found


def test_a_resample_that_leaves_hidden_cards_to_search_opponents_is_caught(stones, findings_of):
    class Peeks(Cards, stones):
        def resample(self, state, seat, rng):
            return state

    (found,) = findings_of("resample", Peeks)
    assert "look alike to seat 0 and are not, but resample() redraws nothing" in found


def test_a_resample_that_leaves_later_chance_to_search_opponents_is_caught(stones, findings_of):
    class Luck(stones):
        """A seed in the state decides by how much a heap shrinks."""

        def initial(self, rng):
            return 8, 0, int(rng.integers(2**32))

        def apply(self, state, action):
            lost = int(np.random.default_rng([state[2], state[0]]).integers(1, state[0] + 1))
            return state[0] - lost, 1 - state[1], state[2]

    (found, *_) = findings_of("resample", Luck)
    assert "resample() redraws nothing" in found


def test_a_resample_that_raises_is_caught(stones, findings_of):
    class Raises(stones):
        def resample(self, state, seat, rng):
            raise NotImplementedError

    (found, *_) = findings_of("resample", Raises)
    assert found.startswith("resample() for seat 0 raises NotImplementedError")
