"""Every reply of a game of Tic-Tac-Toe is told what it lost."""

from dataclasses import replace

import numpy as np
import pytest
from earl_envs import make_game, start_position
from earl_trainer.rewards.functions.value_shaping import solved_value, value_shaping
from earl_trainer.rewards.transcript import GameTranscript

TIC_TAC_TOE = "earl/TicTacToe-v0"


@pytest.fixture
def played(told):
    """Make an episode; every game gives its moves, the seat's replies in it and its score."""

    def make(*games, seat=0, num_games=None):
        first, parts = 0, []
        for moves, num_replies, outcome in games:
            parts.append(
                GameTranscript(
                    seed=3, moves=moves, first_reply=first, end_reason="any", outcome=outcome
                )
            )
            first += num_replies
        episode = told(TIC_TAC_TOE, *[""] * first, seat=seat)
        return replace(episode, games=tuple(parts), num_games=num_games or len(parts))

    return make


# X: 0; O: 4; X: 8 keeps the draw; O: 1; X looks away from 1 4 7 with 2; O: 7 wins.
LOST = (0, 4, 8, 1, 2, 7)


def test_a_blunder_is_charged_to_the_reply_that_made_it(played):
    # O answers 0 with 5 in place of the centre, which loses; X makes two threats; O loses later.
    moves = (0, 5, 4, 8, 2, 1, 6)
    lost = played((moves, 3, -1.0), seat=1)
    assert solved_value(lost) == [0.0, -1.0, -1.0]
    # The last one, from a lost position to a lost game, has 1 that the outcome of -1 takes back.
    assert value_shaping(lost) == [-1.0, 0.0, 1.0]
    # Two moves keep a draw, the third loses it at once, which the outcome alone says.
    assert solved_value(played((LOST, 3, -1.0))) == [0.0, 0.0, 0.0]
    assert value_shaping(played((LOST, 3, -1.0))) == [0.0, 0.0, 0.0]


def test_with_the_outcome_a_reply_has_what_it_and_the_answer_made_of_the_episode(played):
    """Over random games of two: the outcome, on the last reply, makes rewards differences."""
    game, rng = make_game(TIC_TAC_TOE), np.random.default_rng(0)
    for _ in range(50):
        games = [random_game(game, rng) for _ in range(2)]
        seat = int(rng.integers(2))
        counts = [len(moves[seat::2]) for moves, _ in games]
        scores = [returns[seat] for _, returns in games]
        episode = played(
            *zip((moves for moves, _ in games), counts, scores, strict=True), seat=seat
        )
        values = [*solved_value(episode), sum(scores) / 2]
        parts = value_shaping(episode)
        assert sum(parts) == pytest.approx(-values[0])
        parts[-1] += sum(scores) / 2
        assert parts == pytest.approx(np.diff(values))
        assert all(abs(value) <= 1.0 for value in values)


def random_game(game, rng):
    state, moves = start_position(game, 3).state, []
    while game.returns(state) is None:
        moves.append(int(rng.choice(list(game.legal(state)))))
        state = game.apply(state, moves[-1])
    return tuple(moves), game.returns(state)


def test_what_a_game_has_lost_stays_lost_in_the_next_one(played):
    episode = played((LOST, 3, -1.0), ((4,), 1, 0.0), num_games=4)
    assert solved_value(episode) == [0.0, 0.0, 0.0, -0.25]


def test_a_reply_that_is_no_move_faces_a_position_and_one_that_never_came_does_not(played):
    # X wins by 2, and says nothing of use.
    forfeited = played(((0, 8, 1, 4), 3, -1.0))
    assert solved_value(forfeited) == [0.0, 1.0, 1.0]
    assert value_shaping(forfeited) == [1.0, 0.0, -1.0]
    assert solved_value(played(((0, 8, 1, 4), 2, 0.0))) == [0.0, 1.0]
    # X forfeited with its first reply: O never replied in this game.
    assert solved_value(played(((), 0, 1.0), ((4,), 1, 0.0), seat=1)) == [0.5]


def test_games_that_cannot_be_searched_are_refused(told):
    with pytest.raises(ValueError, match="more than 10,000 positions"):
        value_shaping(told("earl/ConnectFour-v0", "", moves=[()]))
