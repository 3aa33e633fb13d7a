"""Opponents and their streams of chance."""

import subprocess
import sys

import numpy as np
import pytest
from earl_envs import OPPONENTS, episode_rng, make_batch, make_game, make_opponent

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
    batch = make_batch(ID, batch_size=2_000, seed=1)
    while not batch.done.all():
        running = np.flatnonzero(~batch.done).tolist()
        moves = [opponent.move(game, batch.state(i), int(batch.seats[i]), rng) for i in running]
        batch.step(moves, running)
    win_rate = float((batch.returns[:, 0] > 0).mean())
    assert win_rate == pytest.approx(737 / 1260, abs=4 * (0.585 * 0.415 / 2_000) ** 0.5)


def test_unknown_opponent_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown opponent 'ramdom'; did you mean 'random'\?"):
        make_opponent("ramdom")


def test_every_opponent_in_the_table_is_made():
    for name in OPPONENTS:
        assert 0 <= make_opponent(name).move(make_game(ID), (0, 0), 0, np.random.default_rng(0)) < 9


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
