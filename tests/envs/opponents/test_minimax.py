"""Exhaustive search."""

import numpy as np
import pytest
from earl_envs import Game, make_game, make_opponent
from earl_envs.opponents.minimax import Minimax

TTT = "earl/TicTacToe-v0"
PLAYER = Minimax()


def test_two_of_them_always_draw(play_games):
    assert play_games(TTT, PLAYER, PLAYER, seat=0, num_games=20) == [0.0] * 20


@pytest.mark.parametrize("seat", [0, 1])
def test_it_never_loses_to_random(play_games, seat):
    scores = play_games(TTT, PLAYER, make_opponent("random"), seat=seat, num_games=60)
    assert min(scores) >= 0.0
    assert np.mean(scores) > 0.65


def test_all_equal_openings_are_played():
    rng, game = np.random.default_rng(0), make_game(TTT)
    assert {PLAYER.move(game, (0, 0), 0, rng) for _ in range(80)} == set(range(9))


def test_a_win_now_comes_before_a_win_later():
    # X holds 0 and 1, O holds 3 and 8: 2 wins at once, others may win later.
    opponent, rng, game = Minimax(), np.random.default_rng(0), make_game(TTT)
    state = (0b000_000_011, 0b100_001_000)
    assert {opponent.move(game, state, 0, rng) for _ in range(20)} == {2}


def test_a_lost_position_is_defended_as_long_as_it_can_be():
    # X threatens the corner 8 and wins wherever O goes; only 8 makes it take the long way.
    game, opponent, rng = make_game(TTT), Minimax(), np.random.default_rng(0)
    state = (0b000_010_001, 0b000_000_010)
    longest = {}
    for action in game.legal(state):
        longest[action] = length(game, game.apply(state, action), winner=0)
    best = {a for a, moves in longest.items() if moves == max(longest.values())}
    assert {opponent.move(game, state, 1, rng) for _ in range(100)} == best == {8}


def length(game, state, *, winner) -> int:
    """Moves until the end when the winner hurries and the other delays; draws last longest."""
    returns = game.returns(state)
    if returns is not None:
        return 0 if returns[winner] > 0 else 100
    pick = min if game.seat(state) == winner else max
    return 1 + pick(length(game, game.apply(state, a), winner=winner) for a in game.legal(state))


def test_it_does_not_see_what_is_hidden(hidden_coin):
    opponent, rng = Minimax(), np.random.default_rng(0)
    for coin in (0, 1):
        assert opponent.move(hidden_coin, (coin, -1), 0, rng) == 2


def test_values_of_one_game_are_not_used_for_another():
    opponent, rng = Minimax(), np.random.default_rng(0)
    state = (0b000_000_011, 0b100_001_000)
    assert opponent.move(make_game(TTT), state, 0, rng) == 2
    assert opponent.move(Misere(), state, 0, rng) != 2


def test_large_and_endless_games_are_refused():
    game, rng = make_game("earl/ConnectFour-v0"), np.random.default_rng(0)
    with pytest.raises(ValueError, match="more than 5,000 positions, too many for minimax"):
        Minimax(max_positions=5_000).move(game, (0, 0), 0, rng)
    with pytest.raises(ValueError, match="too long for minimax"):
        Minimax().move(Endless(), 0, 0, rng)


class Misere(Game):
    """Tic-Tac-Toe in which a line loses."""

    num_seats, num_actions, max_moves = 2, 9, 9
    _usual = make_game(TTT)

    def initial(self, rng):
        return (0, 0)

    def seat(self, state):
        return self._usual.seat(state)

    def legal(self, state):
        return self._usual.legal(state)

    def apply(self, state, action):
        return self._usual.apply(state, action)

    def returns(self, state):
        scores = self._usual.returns(state)
        return None if scores is None else tuple(-score for score in scores)

    def text(self, state, seat):
        return ""

    def move_name(self, state, action):
        return f"[{action}]"


class Endless(Game):
    """Counts on for ever."""

    num_seats, num_actions, max_moves = 2, 1, 10**6

    def initial(self, rng):
        return 0

    def seat(self, state):
        return state % 2

    def legal(self, state):
        return [0]

    def apply(self, state, action):
        return state + 1

    def returns(self, state):
        return None

    def text(self, state, seat):
        return ""

    def move_name(self, state, action):
        return "[0]"


def test_shared_games_are_refused(together):
    with pytest.raises(ValueError, match="one seat wins what the other loses"):
        Minimax().move(together, (), 0, np.random.default_rng(0))


def test_all_of_the_best_moves_are_named():
    game, player = make_game(TTT), Minimax()
    assert player.best_actions(game, (0, 0), 0) == list(range(9))
    assert player.best_actions(game, (0b000_000_011, 0b100_001_000), 0) == [2]
    with pytest.raises(ValueError, match="too long for minimax"):
        player.best_actions(Endless(), 0, 0)
