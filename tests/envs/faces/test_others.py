"""The opponent at the seats that the agent leaves."""

import numpy as np
import pytest
from earl_envs.boundary import Failure
from earl_envs.faces.episode import EpisodeKey
from earl_envs.faces.others import Others, check_seat
from earl_envs.opponents.base import RandomOpponent, episode_rng
from earl_envs.opponents.pool import OpponentPool, PoolMember
from earl_envs.registry import make_game

KEY = EpisodeKey(seed=4, episode=2)


class Answers:
    """Answers what it was told to, whatever the game."""

    def __init__(self, answer):
        self.answer = answer

    def move(self, game, state, seat, rng):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def others(opponent, *, seat=0, game_id="earl/TicTacToe-v0"):
    players = Others(game_id, make_game(game_id), opponent=opponent, seat=seat)
    players.begin(KEY)
    return players


def test_the_opponent_plays_every_seat_but_the_agents():
    assert [others("random", seat=0).plays(seat) for seat in (-1, 0, 1)] == [False, False, True]
    assert [others("random", seat=1).plays(seat) for seat in (-1, 0, 1)] == [False, True, False]
    assert not any(others(None).plays(seat) for seat in (-1, 0, 1))


def test_its_chance_is_the_seats_stream_of_the_episode():
    game = make_game("earl/TicTacToe-v0")
    players, rng = (
        others("random", seat=1),
        episode_rng(4, game_id="earl/TicTacToe-v0", episode=2, seat=0),
    )
    state = game.initial(rng)
    expected = []
    while game.returns(state) is None:
        expected.append(RandomOpponent().move(game, state, 0, rng))
        assert players.move(state, 0) == expected[-1]
        state = game.apply(state, expected[-1])
    players.begin(KEY)
    assert players.move(game.initial(rng), 0) == expected[0], "an episode begins its streams anew"


def test_one_member_of_a_pool_is_met_all_episode_long():
    members = [
        PoolMember(name=str(action), opponent=Answers(action), step=action) for action in range(9)
    ]
    players = others(OpponentPool(members=tuple(members), sampling="uniform"), seat=1)
    met = []
    for episode in range(30):
        players.begin(EpisodeKey(seed=4, episode=episode))
        moves = {players.move((0, 0), 0) for _ in range(5)}
        assert len(moves) == 1
        met.append(moves.pop())
    assert len(set(met)) > 4
    players.begin(EpisodeKey(seed=4, episode=0))
    assert players.move((0, 0), 0) == met[0]


def test_numpy_integers_are_moves():
    answer = others(Answers(np.int64(4))).move((0, 0), 0)
    assert answer == 4
    assert type(answer) is int


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("out of order"), "RuntimeError: out of order"),
        (4, "the opponent's action 4 is not legal"),
        (9, "the opponent's action 9 is not legal"),
        (-1, "the opponent's action -1 is not legal"),
        (1.0, "TypeError: 'float' object cannot be interpreted as an integer"),
        (None, "TypeError: 'NoneType' object"),
    ],
)
def test_a_wrong_answer_is_a_failure(answer, why):
    failure = others(Answers(answer)).move((0b10000, 0), 1)
    assert isinstance(failure, Failure)
    assert why in failure.error


def test_a_seat_that_the_game_does_not_have_is_refused():
    for seat in (-1, 2):
        with pytest.raises(ValueError, match=rf"seat must be in 0\.\.1, got {seat}"):
            check_seat(make_game("earl/TicTacToe-v0"), seat)
    with pytest.raises(ValueError, match="seat must be in"):
        others("random", seat=2)
