"""Monte-Carlo tree search by the rules and by kernel."""

import subprocess
import sys

import numpy as np
import pytest
from earl_envs import make_game, make_opponent
from earl_envs.games.connect_four import ConnectFour
from earl_envs.opponents.mcts import Mcts
from earl_envs.opponents.minimax import Minimax

TTT, C4 = "earl/TicTacToe-v0", "earl/ConnectFour-v0"


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize(("game_id", "win_rate"), [(TTT, 0.65), (C4, 0.95)])
def test_it_beats_random_from_both_seats(play_games, game_id, win_rate, seat):
    # Moving second in Tic-Tac-Toe, even perfect play wins only 81 % of games.
    player, other = make_opponent("mcts:400"), make_opponent("random")
    scores = play_games(game_id, player, other, seat=seat, num_games=60)
    assert scores.count(1.0) >= win_rate * 60
    assert scores.count(-1.0) <= 2


def test_a_thousand_simulations_draw_tic_tac_toe_against_perfect_play(play_games):
    for seat in (0, 1):
        scores = play_games(TTT, Mcts(num_simulations=1_000), Minimax(), seat=seat, num_games=10)
        assert scores.count(0.0) >= 9


def test_by_the_rules_it_takes_wins_and_stops_threats():
    game, rng = ConnectFour(rows=4, columns=5), np.random.default_rng(0)
    opponent = Mcts(num_simulations=300)
    state = (0b1_00001_00001, 0b10_00010_00010)
    assert opponent.move(game, state, 0, rng) == 3
    assert opponent.move(game, (state[0], 0b10_00010), 1, rng) == 3


def test_every_seat_is_taken_to_want_its_own_best(ladder):
    # The last seat would answer 0 with 1, 1; the middle seat's best is 0, 1, 1 for 5, so the first
    # gets 0 there and 6 after playing 1: a search that made the others its enemies or its friends
    # would see 0 or 7.
    rng, opponent = np.random.default_rng(0), Mcts(num_simulations=400)
    assert opponent.move(ladder, (), 0, rng) == 1
    assert opponent.move(ladder, (1,), 1, rng) == 0
    assert opponent.move(ladder, (0,), 1, rng) == 1


def test_shared_scores_are_sought_together(together):
    opponent, rng = Mcts(num_simulations=60), np.random.default_rng(0)
    assert [opponent.move(together, (first,), 1, rng) for first in (0, 1)] == [0, 1]


def test_it_does_not_see_what_is_hidden(hidden_coin):
    opponent, rng = Mcts(num_simulations=200), np.random.default_rng(0)
    for coin in (0, 1):
        assert opponent.move(hidden_coin, (coin, -1), 0, rng) == 2


@pytest.mark.parametrize("game_id", [TTT, C4])
def test_moves_depend_on_the_stream_of_chance_and_on_nothing_else(game_id):
    game, opponent = make_game(game_id), Mcts(num_simulations=20)
    moves = [
        [opponent.move(game, (0, 0), 0, np.random.default_rng(seed)) for seed in range(20)]
        for _ in range(2)
    ]
    assert moves[0] == moves[1]
    assert len(set(moves[0])) > 1


def test_without_numba_it_plays_by_the_rules():
    code = (
        "import sys; sys.modules['numba'] = None;"
        "import numpy as np; from earl_envs import make_game, make_opponent;"
        f"print(make_opponent('mcts:100').move(make_game({TTT!r}), (3, 24), 0,"
        "np.random.default_rng(0)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "2"


def test_rules_that_never_end_a_game_are_an_error(ladder):
    ladder.returns = lambda state: None
    ladder.legal = lambda state: [0, 1]
    ladder.seat = lambda state: 0
    with pytest.raises(ValueError, match="still runs after max_moves = 3 moves"):
        Mcts(num_simulations=5).move(ladder, (), 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_simulations": 0}, "num_simulations must be >= 1, got 0"),
        ({"num_simulations": 5, "exploration": -1.0}, "exploration must be >= 0, got -1.0"),
        ({"num_simulations": 5, "exploration": float("nan")}, "exploration must be >= 0, got nan"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Mcts(**options)
