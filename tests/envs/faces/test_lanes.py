"""Many single agents side by side."""

import gymnasium
import numpy as np
from earl_envs.faces.episode import EpisodeKey, Table
from earl_envs.faces.lanes import AgentLanes, Lanes, stack_infos
from earl_envs.faces.single_agent import SingleAgent
from gymnasium.utils.env_checker import data_equivalence

KEYS = [EpisodeKey(seed=seed, episode=1) for seed in range(3)]


def make_lanes(game_id="faces/LastStone-v0", **params):
    table = Table.lay(game_id, params)
    return AgentLanes(table, 3, opponent="random", seat=1, illegal="forfeit")


def test_every_lane_is_a_single_agent_of_its_own_key():
    lanes = make_lanes()
    assert isinstance(lanes, Lanes)
    lanes.begin(np.arange(3), KEYS)
    table = Table.lay("faces/LastStone-v0", {})
    for slot, key in enumerate(KEYS):
        agent = SingleAgent(table, opponent="random", seat=1, illegal="forfeit")
        agent.begin(key)
        assert np.array_equal(lanes.boards[slot], agent.observe())
        assert lanes.state(slot) == agent.episode.state
        assert lanes.record(slot) == agent.episode.record()


def test_lanes_that_are_not_named_stay_as_they_are():
    lanes = make_lanes()
    lanes.begin(np.arange(3), KEYS)
    before = [lanes.state(slot) for slot in range(3)]
    lanes.act(np.array([1]), np.array([0]))
    assert [lanes.state(slot) == before[slot] for slot in range(3)] == [True, False, True]


def test_ends_are_reported_and_forgotten_by_the_next_episode():
    lanes = make_lanes(stones=2)
    lanes.begin(np.arange(3), KEYS)
    lanes.act(np.arange(3), np.array([2, 2, 2]))
    assert lanes.terminated.all()
    assert lanes.rewards.tolist() == [-1.0] * 3
    infos = lanes.infos(np.array([0, 2]))
    assert infos["_end_reason"].tolist() == [True, False, True]
    lanes.begin(np.array([0]), [EpisodeKey(seed=0, episode=2)])
    assert lanes.terminated.tolist() == [False, True, True]
    assert lanes.rewards.tolist() == [0.0, -1.0, -1.0]


def test_infos_are_batched_as_gymnasium_does():
    infos = {
        0: {"mask": np.array([1, 0], np.int8), "seat": 1},
        2: {"mask": np.array([0, 1], np.int8), "seat": 0, "reason": "over", "score": 0.5},
        3: {"reason": "over", "flag": np.float32(2)},
    }
    expected = {}
    base = gymnasium.vector.VectorEnv()
    base.num_envs = 4
    for slot, info in infos.items():
        expected = base._add_info(expected, info, slot)
    assert data_equivalence(stack_infos(infos, 4), expected)
