"""Moves of Tic-Tac-Toe against the values that search finds."""

import pytest
from earl_trainer.rewards.functions.optimal_moves import optimal_moves

TIC_TAC_TOE = "earl/TicTacToe-v0"


def test_moves_that_keep_the_value_count(told):
    # X: 4; O answers 1, which loses; X: 0 wins by 8 or 6; O blocks 8; X: 6 makes two threats.
    won = (4, 1, 0, 8, 6, 2, 3)
    assert optimal_moves(told(TIC_TAC_TOE, "", moves=[won])) == 1.0
    # O gave the draw away with its first move; afterwards all was lost, so nothing was given away.
    assert optimal_moves(told(TIC_TAC_TOE, "", seat=1, moves=[won])) == pytest.approx(2 / 3)
    # X does not win at once with 8, but cannot lose the win any more: 6 threatens twice.
    assert optimal_moves(told(TIC_TAC_TOE, "", moves=[(0, 1, 4, 2, 6)])) == 1.0
    # Here O threatens 0 1 2 and X looks away.
    assert optimal_moves(told(TIC_TAC_TOE, "", moves=[(4, 0, 8, 1, 7)])) == pytest.approx(2 / 3)


def test_several_games_count_by_their_moves(told):
    moves = [(4, 0, 8, 1, 7), (4,)]
    assert optimal_moves(told(TIC_TAC_TOE, "", "", moves=moves)) == 0.75


@pytest.mark.parametrize(
    ("game_id", "moves", "problem"),
    [
        ("test/Question-v0", [(0,)], "games of two seats, got 1"),
        ("earl/ConnectFour-v0", [(0, 1)], "more than 10,000 positions"),
        (TIC_TAC_TOE, [()], "has made no move"),
    ],
)
def test_what_cannot_be_searched_is_refused(told, game_id, moves, problem):
    with pytest.raises(ValueError, match=problem):
        optimal_moves(told(game_id, "", moves=moves))
