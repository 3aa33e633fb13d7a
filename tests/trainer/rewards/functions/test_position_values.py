"""Values of Tic-Tac-Toe."""

import pytest
from earl_trainer.rewards.functions.position_values import values_of

TIC_TAC_TOE = "earl/TicTacToe-v0"


@pytest.mark.parametrize(
    ("moves", "value"), [((), 0.0), ((4, 1), 1.0), ((0, 4), 0.0), ((0, 4, 1, 2, 8), -1.0)]
)
def test_a_value_is_that_of_perfect_play_and_the_other_seats_negated(position_after, moves, value):
    state = position_after(TIC_TAC_TOE, moves)
    assert values_of(TIC_TAC_TOE).of(state, 0) == value
    assert values_of(TIC_TAC_TOE).of(state, 1) == -value


def test_values_of_a_game_are_remembered():
    assert values_of(TIC_TAC_TOE) is values_of(TIC_TAC_TOE)


def test_what_cannot_be_searched_is_refused(position_after):
    with pytest.raises(ValueError, match="games of two seats, got 1"):
        values_of("test/Question-v0")
    large = "earl/ConnectFour-v0"
    with pytest.raises(ValueError, match="more than 10,000 positions"):
        values_of(large).of(position_after(large, ()), 0)
