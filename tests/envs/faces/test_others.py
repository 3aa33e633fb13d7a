"""The opponent at the seats that the agent leaves."""

import numpy as np
import pytest
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import Episode, EpisodeKey, Table
from earl_envs.faces.others import InPlay, Others, as_opponent, check_seat
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


def answer_to(players, moves=()):
    """Have the others move after `moves`; return the game that comes of it."""
    episode = Episode(Table.lay("earl/TicTacToe-v0", {}), seed=0)
    for move in moves:
        episode.play(move)
    players.play(episode)
    return episode


def test_the_opponent_plays_every_seat_but_the_agents():
    assert [others("random", seat=0).plays(seat) for seat in (-1, 0, 1)] == [False, False, True]
    assert [others("random", seat=1).plays(seat) for seat in (-1, 0, 1)] == [False, True, False]
    assert not any(others(None).plays(seat) for seat in (-1, 0, 1))


class Listens:
    """Draws from its chance and keeps what it drew."""

    def __init__(self):
        self.drawn = []

    def move(self, game, state, seat, rng):
        self.drawn.append(float(rng.random()))
        return game.legal(state)[0]


def test_its_chance_is_the_seats_stream_of_the_episode():
    opponent = Listens()
    players = others(opponent, seat=1)
    answer_to(players)
    answer_to(players, (0, 1))
    rng = episode_rng(4, game_id="earl/TicTacToe-v0", episode=2, seat=0)
    assert opponent.drawn == [rng.random(), rng.random()]
    players.begin(KEY)
    answer_to(players)
    assert opponent.drawn[2] == opponent.drawn[0], "an episode begins its streams anew"


def test_the_random_one_draws_by_game_and_seat_the_key_and_the_number_of_moves():
    for moves in ((), (4, 0), (0, 1, 2, 4, 3, 5)):
        episode = answer_to(others("random", seat=1), moves)
        legal = [action for action in range(9) if action not in moves]
        drawn = KEY.draw("earl/TicTacToe-v0", 0, len(moves), legal)
        assert episode.moves[len(moves)] == drawn


def test_one_member_of_a_pool_is_met_all_episode_long():
    members = [
        PoolMember(name=str(action), opponent=Answers(action), step=action) for action in range(9)
    ]
    players = others(OpponentPool(members=tuple(members), sampling="uniform"), seat=1)
    met = []
    for episode in range(30):
        players.begin(EpisodeKey(seed=4, episode=episode))
        moves = {answer_to(players).moves[0] for _ in range(5)}
        assert len(moves) == 1
        met.append(moves.pop())
    assert len(set(met)) > 4
    players.begin(EpisodeKey(seed=4, episode=0))
    assert answer_to(players).moves == [met[0]]


def test_numpy_integers_are_moves():
    moves = answer_to(others(Answers(np.int64(4))), (0,)).moves
    assert moves == [0, 4]
    assert type(moves[1]) is int


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (RuntimeError("out of order"), "RuntimeError: out of order"),
        (4, "the opponent's action 4 is not legal"),
        (9, "the opponent's action 9 is not legal"),
        (-1, "the opponent's action -1 is not legal"),
        (1.0, "the opponent's action must be an integer, got 1.0"),
        (True, "the opponent's action must be an integer, got True"),
        (np.True_, "the opponent's action must be an integer, got np.True_"),
        (None, "the opponent's action must be an integer, got None"),
    ],
)
def test_a_wrong_answer_ends_the_game_without_a_winner(answer, why):
    episode = answer_to(others(Answers(answer)), (4,))
    assert isinstance(episode, InPlay)
    assert (episode.end_reason, episode.returns) == (EndReason.OPPONENT_ERROR, (0.0, 0.0))
    assert why in episode.detail


def test_an_opponent_is_a_player_or_the_name_of_one():
    player = Answers(0)
    assert as_opponent(player) is player
    assert isinstance(as_opponent("random"), RandomOpponent)
    assert as_opponent(None) is as_opponent("self") is None
    for wrong in (5, Answers, RandomOpponent, ["random"]):
        with pytest.raises(ValueError, match="opponent must be a player, the name of one"):
            as_opponent(wrong)


@pytest.mark.parametrize("seat", [0.0, True, "0", None])
def test_a_seat_is_an_integer(seat):
    game = make_game("earl/TicTacToe-v0")
    assert check_seat(game, np.int64(1)) == 1
    with pytest.raises(ValueError, match="seat must be an integer, got"):
        check_seat(game, seat)


def test_a_seat_that_the_game_does_not_have_is_refused():
    for seat in (-1, 2):
        with pytest.raises(ValueError, match=rf"seat must be in 0\.\.1, got {seat}"):
            check_seat(make_game("earl/TicTacToe-v0"), seat)
    with pytest.raises(ValueError, match="seat must be in"):
        others("random", seat=2)
