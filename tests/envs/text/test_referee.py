"""Moves and forfeits of games that keep their contract, and of games that do not."""

import pytest
from earl_envs import make_game
from earl_envs.text.referee import forfeit_scores, make_move

TIC_TAC_TOE = make_game("earl/TicTacToe-v0")


def test_move_leads_to_the_examined_position():
    position = make_move(TIC_TAC_TOE, (0b000_000_011, 0b000_011_000), 2, num_moves=5)
    assert (position.seat, position.returns) == (-1, (1.0, -1.0))


def test_game_that_outlasts_its_bound_is_refused(last_stone):
    game = last_stone()
    game.max_moves = 2
    assert make_move(game, (11, 0), 0, num_moves=1).state == (10, 1)
    with pytest.raises(ValueError, match="still running after max_moves = 2 moves"):
        make_move(game, (10, 1), 0, num_moves=2)
    assert make_move(game, (1, 1), 0, num_moves=2).returns == (-1.0, 1.0)


def test_forfeit_gives_the_scores_of_the_game():
    assert forfeit_scores(TIC_TAC_TOE, 1) == (1.0, -1.0)


@pytest.mark.parametrize("scores", [(), (0.0,), (0.0, 0.0, 0.0), (float("nan"), 0.0)])
def test_scores_that_break_the_contract_are_refused(last_stone, scores):
    game = last_stone()
    game.forfeit = lambda seat: scores
    with pytest.raises(ValueError, match=r"forfeit\(\) must be 2 finite scores, got"):
        forfeit_scores(game, 0)
