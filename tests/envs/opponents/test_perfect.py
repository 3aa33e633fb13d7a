"""Play that gives nothing away."""

import subprocess
import sys

import numpy as np
import pytest
from earl_envs import make_game, make_opponent
from earl_envs.opponents.perfect import PerfectOpponent

TTT, C4 = "earl/TicTacToe-v0", "earl/ConnectFour-v0"


def test_tic_tac_toe_is_drawn_and_never_lost(play_games):
    player = PerfectOpponent()
    assert play_games(TTT, player, player, seat=0, num_games=6) == [0.0] * 6
    for seat in (0, 1):
        scores = play_games(TTT, player, make_opponent("random"), seat=seat, num_games=15)
        assert min(scores) >= 0


def test_late_connect_four_moves_keep_the_score(random_stones):
    from earl_envs.opponents.connect_four_solver import ConnectFourSolver

    game, player, solver = make_game(C4), PerfectOpponent(), ConnectFourSolver()
    rng = np.random.default_rng(0)
    for seed in range(5):
        state = random_stones(20, seed)
        seat, taken = game.seat(state), state[0] | state[1]
        expected = solver.optimal_columns(state[seat], taken)
        assert {player.move(game, state, seat, rng) for _ in range(30)} == set(expected)


@pytest.mark.slow
def test_connect_four_is_won_by_whoever_moves_first(play_games):
    player = PerfectOpponent()
    assert play_games(C4, player, player, seat=0, num_games=3) == [1.0] * 3


@pytest.mark.slow
def test_connect_four_is_never_lost_to_random(play_games):
    player, other = PerfectOpponent(), make_opponent("random")
    assert play_games(C4, player, other, seat=0, num_games=20) == [1.0] * 20
    assert np.mean(play_games(C4, player, other, seat=1, num_games=20)) > 0.8


def test_an_opening_of_its_own_is_answered_from_the_book():
    game, player, rng = make_game(C4), PerfectOpponent(), np.random.default_rng(0)
    assert player.move(game, (0, 0), 0, rng) == 3
    assert "_solver" not in vars(player)


def test_hidden_information_is_refused(hidden_coin):
    with pytest.raises(ValueError, match="perfect play is for games that hide nothing"):
        PerfectOpponent().move(hidden_coin, (0, -1), 0, np.random.default_rng(0))


def test_connect_four_needs_numba_beyond_the_book_and_says_where_it_is(random_stones):
    code = (
        "import sys; sys.modules['numba'] = None;"
        "import numpy as np; from earl_envs import make_game, make_opponent;"
        f"game, rng = make_game({C4!r}), np.random.default_rng(0);"
        "player = make_opponent('perfect');"
        "print(player.move(game, (0, 0), 0, rng), flush=True);"
        f"player.move(game, {random_stones(12, 0)}, 0, rng)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stdout == "3\n"
    assert (
        "ImportError: perfect play of Connect Four beyond its book needs numba: "
        "pip install earl-envs[fast]"
    ) in ran.stderr


def test_all_of_its_moves_are_named():
    game, player, rng = make_game(TTT), PerfectOpponent(), np.random.default_rng(0)
    state = (0b000_000_001, 0b000_000_010)
    moves = {player.move(game, state, 0, rng) for _ in range(100)}
    assert set(player.optimal_actions(game, state, 0, rng)) == moves < set(game.legal(state))
    assert player.optimal_actions(game, (0, 0), 0, rng) == list(range(9))


def test_optimal_moves_of_connect_four_are_known_beyond_the_book(random_stones):
    game, player, rng = make_game(C4), PerfectOpponent(), np.random.default_rng(0)
    assert player.optimal_actions(game, (0, 0), 0, rng) is None
    state = random_stones(20, 1)
    seat = game.seat(state)
    moves = {player.move(game, state, seat, rng) for _ in range(40)}
    assert set(player.optimal_actions(game, state, seat, rng)) == moves


def test_optimal_moves_of_hidden_information_are_refused(hidden_coin):
    with pytest.raises(ValueError, match="perfect play is for games that hide nothing"):
        PerfectOpponent().optimal_actions(hidden_coin, (0, -1), 0, np.random.default_rng(0))
