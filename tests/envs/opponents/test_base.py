"""Opponents and their streams of chance."""

import re
import subprocess
import sys

import numpy as np
import pytest
from earl_envs import OPPONENTS, episode_rng, make_batch, make_game, make_opponent
from earl_envs.opponents.base import check_opponent, whole_number

ID = "earl/TicTacToe-v0"


def _draws(rng: np.random.Generator) -> list[int]:
    return rng.integers(0, 2**32, size=4).tolist()


def test_random_opponent_plays_every_legal_move_equally_often():
    game, opponent, rng = make_game(ID), make_opponent("random"), np.random.default_rng(0)
    state = game.apply(game.apply((0, 0), 4), 0)
    moves = [opponent.move(game, state, 0, rng) for _ in range(7_000)]
    counts = np.bincount(moves, minlength=9)
    assert counts[[0, 4]].tolist() == [0, 0]
    # Seven moves of probability 1/7: the standard deviation of each count is 29.
    assert np.abs(counts[[1, 2, 3, 5, 6, 7, 8]] - 1_000).max() < 150


def test_first_of_two_random_players_wins_737_games_of_1260():
    game, opponent, rng = make_game(ID), make_opponent("random"), np.random.default_rng(1)
    batch = make_batch(ID, batch_size=500, seed=1)
    while not batch.done.all():
        running = np.flatnonzero(~batch.done).tolist()
        moves = [opponent.move(game, batch.state(i), int(batch.seats[i]), rng) for i in running]
        batch.step(moves, running)
    win_rate = float((batch.returns[:, 0] > 0).mean())
    assert win_rate == pytest.approx(737 / 1260, abs=4 * (0.585 * 0.415 / 500) ** 0.5)


def test_unknown_opponent_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown opponent 'ramdom'; did you mean 'random'\?"):
        make_opponent("ramdom")


@pytest.mark.parametrize("name", sorted(set(OPPONENTS) - {"openai"}))
def test_every_example_of_the_table_plays(name):
    game, state = make_game(ID), (1, 16)
    opponent = make_opponent(OPPONENTS[name].example)
    assert opponent.move(game, state, 0, np.random.default_rng(0)) in game.legal(state)


@pytest.mark.parametrize("game_id", [ID, "earl/ConnectFour-v0"])
@pytest.mark.parametrize("spec", ["random", "negamax:3", "mcts:30", "pool:first,random"])
def test_episodes_are_the_same_alone_and_side_by_side(spec, game_id):
    game, num_episodes = make_game(game_id), 4
    alone = [finish(game, make_opponent(spec), [episode])[0] for episode in range(num_episodes)]
    together = finish(game, make_opponent(spec), range(num_episodes))
    backwards = finish(game, make_opponent(spec), reversed(range(num_episodes)))
    assert together == alone == backwards[::-1]
    assert len(set(alone)) > 1


def finish(game, opponent, episodes):
    """Play episodes in turns, a move of each after a move of each; give their moves."""
    rngs = [
        [episode_rng(5, game_id=ID, episode=episode, seat=seat) for seat in (0, 1)]
        for episode in episodes
    ]
    states = [game.initial(np.random.default_rng(0)) for _ in rngs]
    moves = [() for _ in rngs]
    for _ in range(8):
        for place, state in enumerate(states):
            if game.returns(state) is None:
                seat = game.seat(state)
                move = opponent.move(game, state, seat, rngs[place][seat])
                moves[place] += (move,)
                states[place] = game.apply(state, move)
    return moves


def test_no_opponent_touches_the_random_state_of_the_process():
    # In a process of its own: the type checker of the tests draws from `random` itself.
    code = (
        "import random, numpy as np, earl_envs as e;"
        "state = lambda: (random.getstate(), str(np.random.get_state()));"
        f"game = e.make_game({ID!r}); before = state();"
        "specs = [kind.example for name, kind in e.OPPONENTS.items() if name != 'openai'];"
        "rng = np.random.default_rng(0);"
        "moves = [e.make_opponent(spec).move(game, (1, 16), 0, rng) for spec in specs];"
        "print(len(moves), state() == before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == [str(len(OPPONENTS) - 1), "True"]


@pytest.mark.parametrize("name", OPPONENTS)
def test_check_accepts_what_is_made(name):
    check_opponent(OPPONENTS[name].example)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("negamxa:6", "unknown opponent 'negamxa'; did you mean 'negamax'?"),
        ("negamax", "opponent 'negamax' needs DEPTH, such as 'negamax:6', got 'negamax'"),
        ("negamax:", "opponent 'negamax' needs DEPTH, such as 'negamax:6', got 'negamax:'"),
        ("negamax:0", "DEPTH must be a whole number >= 1, got '0'"),
        ("mcts:many", "SIMULATIONS must be a whole number >= 1, got 'many'"),
        ("negamax:" + "9" * 5_000, "DEPTH must be at most 1000, got 5000 characters"),
        ("negamax:1001", "DEPTH must be at most 1000, got 1001"),
        ("mcts:99999999999999", "SIMULATIONS must be at most 10000000, got 14 characters"),
        ("scripted:4,10000000000", "an action must be at most 1000000000, got 11 characters"),
        ("self", "'self' names no player: to train against itself use `earl train"),
        ("pool:first,scripted:4,0", "a pool's specs end at commas, 'first,scripted:4,0': unknown"),
        ("openai:http://host:port/v1#m", "an endpoint is an address such as"),
        ("random:3", "opponent 'random' takes no argument, got 'random:3'"),
        ("perfect:", "opponent 'perfect' takes no argument, got 'perfect:'"),
        ("scripted:1,x", "an action must be a whole number >= 0, got 'x'"),
        ("pool:random,nobody", "unknown opponent 'nobody'"),
        ("pool:random,random", "the names of a pool's members must differ"),
        ("openai:host/v1#m", "an endpoint is an address such as http://host:8000/v1"),
        ("openai:http://host/v1", "an endpoint needs the name of a model"),
    ],
)
def test_bad_specs_are_refused_with_the_rule(spec, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_opponent(spec)


@pytest.mark.parametrize("text", ["", "-1", "1.0", " 1", "٣", "0"])
def test_only_plain_digits_are_whole_numbers(text):
    with pytest.raises(ValueError, match="x must be a whole number >= 1"):
        whole_number(text, what="x")


def test_importing_the_table_loads_no_search():
    code = (
        "import sys, earl_envs;"
        "heavy = {'numba', *('earl_envs.opponents.' + m for m in ('negamax', 'mcts', 'endpoint'))};"
        "print(sorted(heavy.intersection(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_stream_depends_on_each_of_its_four_values():
    base = {"seed": 1, "game_id": ID, "episode": 2, "seat": 0}
    changes = [{}, {"seed": 2}, {"game_id": "earl/ConnectFour-v0"}, {"episode": 1}, {"seat": 1}]
    # Values that would run together if they were merely joined.
    changes += [{"seed": 12, "episode": 0}, {"seed": 1, "episode": 20}, {"seed": 2**32}]
    streams = [tuple(_draws(episode_rng(**(base | change)))) for change in changes]
    assert len(set(streams)) == len(changes)


def test_stream_is_the_same_in_another_process():
    code = (
        "from earl_envs import episode_rng;"
        f"rng = episode_rng(7, game_id={ID!r}, episode=3, seat=1);"
        "print(rng.integers(0, 2**32, size=4).tolist())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(_draws(episode_rng(7, game_id=ID, episode=3, seat=1)))
