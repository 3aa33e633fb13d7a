"""Lanes on compiled rules do what lanes of single agents do."""

import numpy as np
import pytest
from earl_envs.batch import GameBatch, make_batch
from earl_envs.faces.episode import EpisodeKey, Table
from earl_envs.faces.kernel_lanes import KernelLanes
from earl_envs.faces.lanes import AgentLanes, Lanes
from gymnasium.utils.env_checker import data_equivalence

pytest.importorskip("numba")

GAMES = ["earl/TicTacToe-v0", "earl/ConnectFour-v0", "earl/Othello-v0"]
NUM_LANES = 5


def both(game_id, *, opponent, seat):
    table = Table.lay(game_id, {})
    batch = make_batch(game_id, batch_size=NUM_LANES, seed=0, backend="numba")
    assert not isinstance(batch, GameBatch)
    compiled = KernelLanes(table, batch, seat=seat, has_opponent=opponent is not None)
    plain = AgentLanes(table, NUM_LANES, opponent=opponent, seat=seat, illegal="forfeit")
    return compiled, plain


def assert_equal(compiled, plain, slots):
    for name in ("boards", "seats", "rewards", "terminated", "truncated"):
        assert np.array_equal(getattr(compiled, name)[slots], getattr(plain, name)[slots]), name
    assert data_equivalence(compiled.infos(slots), plain.infos(slots))
    for slot in slots.tolist():
        assert compiled.state(slot) == plain.state(slot)
        assert compiled.record(slot) == plain.record(slot)


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("opponent", ["random", None])
@pytest.mark.parametrize("game_id", GAMES)
def test_random_play_with_illegal_moves_and_any_subset(game_id, opponent, seat):
    compiled, plain = both(game_id, opponent=opponent, seat=seat)
    assert isinstance(compiled, Lanes)
    rng = np.random.default_rng(seat)
    keys = [EpisodeKey(seed=10 + slot, episode=0) for slot in range(NUM_LANES)]
    every = np.arange(NUM_LANES)
    for lanes in (compiled, plain):
        lanes.begin(every, keys)
    assert_equal(compiled, plain, every)
    for _ in range(60):
        over = compiled.terminated
        restarted = np.flatnonzero(over)
        for slot in restarted.tolist():
            keys[slot] = EpisodeKey(seed=keys[slot].seed, episode=keys[slot].episode + 1)
        chosen = np.flatnonzero(~over & (rng.random(NUM_LANES) < 0.7))
        mask = plain.infos(every)["action_mask"]
        actions = np.array([draw(rng, mask[slot]) for slot in chosen.tolist()], np.int64)
        for lanes in (compiled, plain):
            lanes.act(chosen, actions)
            lanes.begin(restarted, [keys[slot] for slot in restarted.tolist()])
        assert_equal(compiled, plain, every)
    assert max(key.episode for key in keys) >= 1


def draw(rng, mask):
    legal, illegal = np.flatnonzero(mask), np.flatnonzero(mask == 0)
    return rng.choice(illegal if len(illegal) and rng.random() < 0.05 else legal)
