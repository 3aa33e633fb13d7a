"""Moves are compared with those of a perfect player."""

from dataclasses import replace

import numpy as np
import pytest
from earl_envs import EndReason
from earl_envs.opponents.perfect import PerfectOpponent
from earl_trainer.evaluation.optimal_moves import Solver, count_optimal


def played(summary, moves, *, seat):
    (game,) = summary.games
    return replace(
        summary,
        start=replace(summary.start, seat=seat),
        games=[replace(game, moves=moves)],
    )


def test_moves_of_the_learners_seat_alone_are_judged(tic_tac_toe, make_summary):
    solver = PerfectOpponent()
    assert isinstance(solver, Solver)
    # Corner; O answers at the side, which loses, as only the centre draws; X takes the centre, O
    # does not block 8, and X does not take it.
    moves = (0, 1, 4, 2, 3)
    first = count_optimal(tic_tac_toe, [played(make_summary(), moves, seat=0)], solver)
    second = count_optimal(tic_tac_toe, [played(make_summary(), moves, seat=1)], solver)
    # All nine openings draw, the centre wins; 8 wins at once, and 3 of five moves does not.
    assert (first.num_moves, first.num_optimal) == (3, 2)
    assert second.num_moves == 2
    assert second.num_optimal == 0
    random = 1.0 + _share(tic_tac_toe, moves[:2]) + 1 / 5
    assert first.expected_of_random == pytest.approx(random)
    assert first.figures()["optimal_share"] == pytest.approx(2 / 3)


def _share(game, moves):
    state = (0, 0)
    for move in moves:
        state = game.apply(state, move)
    best = PerfectOpponent().optimal_actions(game, state, 0, np.random.default_rng(0))
    return len(best) / len(game.legal(state))


def test_a_forfeit_is_no_move(tic_tac_toe, make_summary):
    forfeited = make_summary(end_reason=EndReason.ILLEGAL_MOVE)
    assert count_optimal(tic_tac_toe, [forfeited], PerfectOpponent()).figures() == {}


class Late:
    """Knows positions of two stones or more, in which it wants the first legal move."""

    def optimal_actions(self, game, state, seat, rng):
        stones = (state[0] | state[1]).bit_count()
        return [game.legal(state)[0]] if stones >= 2 else None


def test_positions_that_the_solver_does_not_know_are_left_out(tic_tac_toe, make_summary):
    count = count_optimal(tic_tac_toe, [played(make_summary(), (8, 7, 0, 6, 4), seat=0)], Late())
    assert (count.num_moves, count.num_optimal) == (2, 1)
    assert count.expected_of_random == pytest.approx(1 / 7 + 1 / 5)
