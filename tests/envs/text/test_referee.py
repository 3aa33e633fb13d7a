"""Moves and forfeits of games that keep their contract, and of games that do not."""

import pytest
from earl_envs import Game, make_game
from earl_envs.text.referee import forfeit_scores, make_move

TIC_TAC_TOE = make_game("earl/TicTacToe-v0")


class Endless(Game):
    """Never scored; forfeits are set from outside."""

    num_seats, num_actions, max_moves = 1, 1, 2
    scores = (0.0,)

    def initial(self, rng):
        return 0

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0]

    def apply(self, state, action):
        return state + 1

    def returns(self, state):
        return None

    def text(self, state, seat):
        return ""

    def move_name(self, state, action):
        return "[go]"

    def forfeit(self, seat):
        return self.scores


def test_move_leads_to_the_examined_position():
    position = make_move(TIC_TAC_TOE, (0b000_000_011, 0b000_011_000), 2, num_moves=5)
    assert (position.seat, position.returns) == (-1, (1.0, -1.0))


def test_game_that_outlasts_its_bound_is_refused():
    game = Endless()
    assert make_move(game, 0, 0, num_moves=1).state == 1
    with pytest.raises(ValueError, match="still running after max_moves = 2 moves"):
        make_move(game, 1, 0, num_moves=2)


def test_forfeit_gives_the_scores_of_the_game():
    assert forfeit_scores(TIC_TAC_TOE, 1) == (1.0, -1.0)


@pytest.mark.parametrize("scores", [(), (0.0, 0.0), (float("nan"),)])
def test_scores_that_break_the_contract_are_refused(scores):
    game = Endless()
    game.scores = scores
    with pytest.raises(ValueError, match=r"forfeit\(\) must be 1 finite scores, got"):
        forfeit_scores(game, 0)
