"""Search to a fixed depth."""

import subprocess
import sys

import numpy as np
import pytest
from earl_envs import make_game, make_opponent
from earl_envs.games.connect_four import ConnectFour
from earl_envs.opponents.negamax import Negamax

TTT, C4 = "earl/TicTacToe-v0", "earl/ConnectFour-v0"


def moves_of(opponent, game, state, num=60):
    rng, seat = np.random.default_rng(0), game.seat(state)
    return {opponent.move(game, state, seat, rng) for _ in range(num)}


@pytest.mark.parametrize("seat", [0, 1])
def test_two_moves_ahead_beat_random_in_connect_four(play_games, seat):
    player, other = make_opponent("negamax:2"), make_opponent("random")
    scores = play_games(C4, player, other, seat=seat, num_games=150)
    assert scores.count(1.0) >= 0.8 * 150


@pytest.mark.parametrize(("seat", "win_rate"), [(0, 0.8), (1, 0.6)])
def test_two_moves_ahead_beat_random_in_tic_tac_toe(play_games, seat, win_rate):
    # Moving second, even perfect play wins only 81 % of games.
    player, other = make_opponent("negamax:2"), make_opponent("random")
    scores = play_games(TTT, player, other, seat=seat, num_games=100)
    assert scores.count(1.0) >= win_rate * 100
    assert scores.count(-1.0) <= 0.2 * 100


def test_as_deep_as_the_game_it_plays_perfectly(play_games):
    player = Negamax(depth=9)
    scores = play_games(TTT, player, make_opponent("minimax"), seat=1, num_games=2)
    assert scores == [0.0, 0.0]


def test_wins_soon_and_loses_late():
    game = make_game(TTT)
    won = (0b000_000_011, 0b100_001_000)
    assert moves_of(Negamax(depth=5), game, won, 20) == {2}
    lost = (0b000_010_001, 0b000_000_010)
    assert moves_of(Negamax(depth=5), game, lost, 20) == {8}


@pytest.mark.parametrize("depth", [2, 4, 5])
@pytest.mark.parametrize("state", [(6, 0), (7, 1), (9, 0), (11, 1)])
def test_remembered_positions_do_not_change_the_choice(last_stone, state, depth):
    # The same stones are reached in few large moves and in many small ones: what was found out
    # with more moves to go must not be used with fewer.
    game = last_stone()
    values = {a: plain(game, game.apply(state, a), depth - 1) for a in game.legal(state)}
    pick = max if game.seat(state) == 0 else min
    best = {a for a, value in values.items() if value == pick(values.values())}
    assert moves_of(Negamax(depth=depth), game, state) == best


def plain(game, state, depth, ply=1):
    """Value for seat 0 without pruning, in which each move costs a win a little."""
    returns = game.returns(state)
    if returns is not None:
        return round(returns[0] * (1000 - ply))
    if depth == 0:
        return 0
    pick = max if game.seat(state) == 0 else min
    return pick(plain(game, game.apply(state, a), depth - 1, ply + 1) for a in game.legal(state))


def test_the_heuristic_is_asked_for_the_seat_that_searches():
    def corner(game, state, seat):
        return float(state[seat] & 1)

    game = make_game(TTT)
    assert moves_of(Negamax(depth=1, heuristic=corner), game, (0, 0)) == {0}
    assert moves_of(Negamax(depth=1, heuristic=corner), game, (1 << 4, 0)) == {0}


def test_it_does_not_see_what_is_hidden(hidden_coin):
    for coin in (0, 1):
        assert moves_of(Negamax(depth=2), hidden_coin, (coin, -1)) == {2}


def test_games_it_cannot_play_are_refused(ladder, together):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="two seats against each other, got 3"):
        Negamax(depth=2).move(ladder, (), 0, rng)
    with pytest.raises(ValueError, match="one seat wins what the other loses"):
        Negamax(depth=2).move(together, (), 0, rng)
    with pytest.raises(ValueError, match="depth must be >= 1, got 0"):
        Negamax(depth=0)


def test_other_boards_and_a_missing_numba_are_played_by_the_rules():
    game = ConnectFour(rows=4, columns=5)
    # Three in the bottom row with room on the right.
    state = (0b1_00001_00001, 0b10_00010_00010)
    assert moves_of(Negamax(depth=3), game, state, 5) == {3}
    code = (
        "import sys; sys.modules['numba'] = None;"
        "import numpy as np; from earl_envs import make_game, make_opponent;"
        f"print(make_opponent('negamax:2').move(make_game({C4!r}), (16513, 33026), 0,"
        "np.random.default_rng(0)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "3"
