"""Games between opponents: each by its own chance, each failing alone."""

import numpy as np
import pytest
from earl_envs import (
    EndReason,
    Game,
    ParseFailure,
    RandomOpponent,
    make_game,
    register_game,
)
from earl_envs.evaluation.play import Seating, play_games
from earl_envs.opponents.endpoint import NoLegalMoveError
from earl_envs.opponents.pool import OpponentPool, PoolMember

ID = "earl/TicTacToe-v0"
FRAGILE, GENEROUS = "test/FragilePlay-v0", "test/GenerousPlay-v0"


class Fragile(Game):
    """One move each; the second raises when the deal is odd."""

    num_seats, num_actions, max_moves = 2, 1, 2

    def initial(self, rng):
        return (int(rng.integers(2)), 0)

    def seat(self, state):
        return state[1]

    def legal(self, state):
        return [0]

    def apply(self, state, action):
        if state == (1, 1):
            raise RuntimeError("rules broke")
        return (state[0], state[1] + 1)

    def returns(self, state):
        return None if state[1] < 2 else (1.0, -1.0)

    def text(self, state, seat):
        return ""

    def move_name(self, state, action):
        return "[go]"


class Generous(Fragile):
    """Nobody agrees on what a forfeit costs."""

    def forfeit(self, seat):
        return (1.0,)


class Mute:
    """Plays one move, then names none."""

    def __init__(self, failure):
        self.failure = failure

    def move(self, game, state, seat, rng):
        if len(game.legal(state)) < 8:
            raise NoLegalMoveError("said nothing", self.failure)
        return game.legal(state)[0]


class Remote:
    """Random, asked for several moves at a time."""

    max_concurrent_moves = 4

    def move(self, game, state, seat, rng):
        return RandomOpponent().move(game, state, seat, rng)


class Raising:
    def move(self, game, state, seat, rng):
        raise RuntimeError("no idea")


class Answering:
    def __init__(self, answer):
        self.answer = answer

    def move(self, game, state, seat, rng):
        return self.answer


def seatings(count, players=("x", "y")):
    return [Seating(episode=i, game_seed=100 + i, players=players) for i in range(count)]


def test_games_are_played_by_the_rules_and_replay_to_their_scores():
    players = {"x": RandomOpponent(), "y": RandomOpponent()}
    played = play_games(ID, players, seatings(20), seed=3)

    assert [episode.game.seed for episode in played] == [100 + i for i in range(20)]
    assert len({tuple(episode.game.moves) for episode in played}) == 20
    for episode in played:
        assert episode.end_reason is EndReason.FINISHED
        assert episode.positions()[-1].returns == tuple(episode.returns)
        assert tuple(episode.players) == ("x", "y")


def test_a_game_is_the_same_alone_and_in_any_company():
    players = {"x": RandomOpponent(), "y": RandomOpponent()}
    plan = seatings(12)
    together = play_games(ID, players, plan, seed=3)

    assert play_games(ID, players, plan[::-1], seed=3) == together[::-1]
    assert [play_games(ID, players, [one], seed=3)[0] for one in plan] == together
    assert play_games(ID, players, plan, seed=4) != together


@pytest.mark.parametrize(
    ("culprit", "detail"),
    [
        (Raising(), "bad in seat 1: RuntimeError: no idea"),
        (Answering(99), "bad in seat 1: ValueError: the move 99 is not legal"),
        (Answering(None), "bad in seat 1: TypeError"),
        (Answering(1.0), "bad in seat 1: TypeError"),
    ],
)
def test_a_player_that_fails_wins_nothing_and_harms_no_neighbour(culprit, detail):
    players = {"x": RandomOpponent(), "y": RandomOpponent(), "bad": culprit}
    plan = seatings(6)
    plan[3] = Seating(episode=3, game_seed=103, players=("x", "bad"))
    played = play_games(ID, players, plan, seed=3)
    unharmed = play_games(ID, players, seatings(6), seed=3)

    assert [e for i, e in enumerate(played) if i != 3] == [
        e for i, e in enumerate(unharmed) if i != 3
    ]
    assert played[3].end_reason is EndReason.OPPONENT_ERROR
    assert detail in played[3].detail
    assert tuple(played[3].returns) == (0.0, 0.0)


@pytest.mark.parametrize("failure", list(ParseFailure))
def test_a_player_that_names_no_legal_move_forfeits_where_it_stands(failure):
    players = {"x": RandomOpponent(), "y": RandomOpponent(), "mute": Mute(failure)}
    plan = seatings(6)
    plan[3] = Seating(episode=3, game_seed=103, players=("x", "mute"))
    played = play_games(ID, players, plan, seed=3)

    assert [e for i, e in enumerate(played) if i != 3] == [
        e for i, e in enumerate(play_games(ID, players, seatings(6), seed=3)) if i != 3
    ]
    assert played[3].end_reason is EndReason(failure.value)
    assert tuple(played[3].returns) == (1.0, -1.0)
    assert played[3].detail == "mute in seat 1: said nothing"
    assert played[3].positions()[-1].seat == 1
    assert len(played[3].game.moves) == 3


def test_a_forfeit_that_the_rules_cannot_score_is_theirs():
    register_game(GENEROUS, Generous)
    players = {"x": Answering(0), "y": Mute(ParseFailure.UNPARSABLE)}
    (episode,) = play_games(GENEROUS, players, seatings(1), seed=0)

    assert episode.end_reason is EndReason.ENV_ERROR
    assert tuple(episode.returns) == (0.0, 0.0)
    assert "forfeit() must be 2 finite scores" in episode.detail


def test_players_asked_at_the_same_time_play_the_same_games():
    one_by_one = play_games(ID, {"x": RandomOpponent(), "y": RandomOpponent()}, seatings(9), seed=3)

    assert play_games(ID, {"x": Remote(), "y": Remote()}, seatings(9), seed=3) == one_by_one
    assert play_games(ID, {"x": Remote(), "y": RandomOpponent()}, seatings(9), seed=3) == one_by_one


def test_a_numpy_integer_is_a_move():
    class Numpy:
        def move(self, game, state, seat, rng):
            return np.int32(game.legal(state)[0])

    (episode,) = play_games(ID, {"x": Numpy(), "y": Numpy()}, seatings(1), seed=0)
    assert episode.game.moves == (0, 1, 2, 3, 4, 5, 6)


def test_rules_that_fail_end_their_game_with_env_error():
    register_game(FRAGILE, Fragile)
    dealt = [int(np.random.default_rng(100 + i).integers(2)) for i in range(8)]
    assert set(dealt) == {0, 1}
    played = play_games(FRAGILE, {"x": Answering(0), "y": Answering(0)}, seatings(8), seed=0)

    reasons = {0: EndReason.FINISHED, 1: EndReason.ENV_ERROR}
    assert [episode.end_reason for episode in played] == [reasons[deal] for deal in dealt]
    assert {"rules broke" in episode.detail for episode in played} == {True, False}


def test_a_pool_is_drawn_from_once_per_game():
    members = tuple(
        PoolMember(name=name, opponent=Ordered(index))
        for name, index in (("first", 0), ("last", -1))
    )
    pool = OpponentPool(members=members)
    played = play_games(ID, {"x": pool, "y": RandomOpponent()}, seatings(30), seed=1)
    game, styles = make_game(ID), []
    for episode in played:
        positions = episode.positions()
        own = [
            (position.legal, move)
            for position, move in zip(positions, episode.game.moves, strict=False)
            if position.seat == 0
        ]
        styles.append({legal.index(move) == 0 for legal, move in own if len(legal) > 1})
    assert game.num_seats == 2
    assert all(len(style) == 1 for style in styles), "one member plays the whole game"
    assert {True} in styles
    assert {False} in styles


class Ordered:
    def __init__(self, place):
        self.place = place

    def move(self, game, state, seat, rng):
        return game.legal(state)[self.place]
