"""The PettingZoo environments."""

import copy
import pickle
import warnings

import numpy as np
import pytest
from earl_envs.faces.pettingzoo_env import pettingzoo_env, pettingzoo_parallel_env
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
)

GAMES = ["earl/TicTacToe-v0", "earl/ConnectFour-v0", "faces/LastStone-v0", "faces/Climb-v0"]
# PettingZoo says these of every environment that is not on its own list: of observations with a
# mask in them, of boards that start empty, and of agents that have no move.
UNAVOIDABLE = {
    "Observation is not a NumPy array",
    "Observation space for each agent probably should be gymnasium.spaces.box or "
    "gymnasium.spaces.discrete",
    "Observation numpy array is all zeros.",
    "Action mask numpy array is all zeros (no legal actions).",
}


@pytest.fixture(params=GAMES)
def game_id(request):
    return request.param


def check(function, *args, **kwargs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*args, **kwargs)
    assert {str(warning.message) for warning in caught} <= UNAVOIDABLE


def test_api_test_passes(game_id, capsys):
    check(api_test, pettingzoo_env(game_id), num_cycles=100)


def test_seed_test_passes(game_id):
    check(seed_test, lambda: pettingzoo_env(game_id), num_cycles=100)


def test_parallel_api_test_passes(game_id, capsys):
    check(parallel_api_test, pettingzoo_parallel_env(game_id), num_cycles=100)


def test_parallel_seed_test_passes(game_id):
    check(parallel_seed_test, lambda: pettingzoo_parallel_env(game_id), num_cycles=100)


def test_render_test_passes(game_id):
    check(render_test, lambda render_mode: pettingzoo_env(game_id, render_mode=render_mode))


def random_episode(env, rng, seed):
    """Play one whole episode; return all that every agent was given."""
    env.reset(seed=seed)
    seen = []
    for agent in env.agent_iter():
        seen.append((agent, env.last()))
        observation, _, terminated, truncated, _ = env.last()
        mask = observation["action_mask"]
        over = terminated or truncated
        env.step(None if over else int(rng.choice(np.flatnonzero(mask))))
    return seen


def test_whole_episodes_depend_on_seed_and_actions_alone(game_id):
    def series(seed):
        env, rng = pettingzoo_env(game_id), np.random.default_rng(1)
        return [random_episode(env, rng, seed if number == 0 else None) for number in range(10)]

    assert data_equivalence(series(4), series(4))


def test_every_seat_sees_its_own_stones_at_any_time():
    env = pettingzoo_env("earl/TicTacToe-v0")
    env.reset(seed=0)
    stones = {0: set(), 1: set()}
    for seat, action in ((0, 0), (1, 4), (0, 2), (1, 1), (0, 8), (1, 7)):
        assert env.agent_selection == f"player_{seat}"
        env.step(action)
        stones[seat].add(action)
        for viewer in (0, 1):
            own, others = env.observe(f"player_{viewer}")["observation"].reshape(2, 9)
            assert set(np.flatnonzero(own)) == stones[viewer]
            assert set(np.flatnonzero(others)) == stones[1 - viewer]
    assert sum(env.rewards.values()) == 0
    assert env.rewards == {"player_0": -1.0, "player_1": 1.0}


@pytest.mark.parametrize(
    ("game_id", "moves", "winner"),
    [
        ("earl/TicTacToe-v0", (0, 3, 1, 4, 2), 0),
        ("earl/TicTacToe-v0", (0, 3, 1, 4, 8, 5), 1),
        ("earl/ConnectFour-v0", (0, 1, 0, 1, 0, 1, 0), 0),
        ("faces/LastStone-v0", (2, 2, 2, 0, 0), 0),
        ("faces/LastStone-v0", (2, 2, 2, 1), 1),
    ],
)
def test_at_the_end_the_agent_after_the_mover_is_selected_in_every_game(game_id, moves, winner):
    env = pettingzoo_env(game_id)
    env.reset(seed=0)
    for move in moves:
        assert env.last()[1] == 0.0
        env.step(move)
    for agent, reward in ((f"player_{1 - winner}", -1.0), (f"player_{winner}", 1.0)):
        observation, total, terminated, truncated, info = env.last()
        assert (env.agent_selection, total, terminated, truncated) == (agent, reward, True, False)
        assert (info["winner"], info["end_reason"]) == (winner, "finished")
        assert not observation["action_mask"].any()
        env.step(None)
    assert env.agents == []
    with pytest.raises(ValueError, match="the episode is over or was never begun"):
        env.step(None)


def test_three_seats_take_turns():
    env = pettingzoo_env("faces/LastStone-v0", seats=3, stones=4)
    env.reset(seed=0)
    turns = []
    for _ in range(4):
        turns.append(env.agent_selection)
        env.step(0)
    assert turns == ["player_0", "player_1", "player_2", "player_0"]
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0, "player_2": -1.0}


def test_an_illegal_action_forfeits_and_terminates():
    env = pettingzoo_env("earl/TicTacToe-v0")
    env.reset(seed=0)
    env.step(4)
    env.step(4)
    assert env.rewards == {"player_0": 1.0, "player_1": -1.0}
    assert env.terminations == {"player_0": True, "player_1": True}
    assert env.truncations == {"player_0": False, "player_1": False}
    assert env.infos["player_1"]["end_reason"] == "illegal_move"
    assert env.record().moves == (4,)


@pytest.mark.parametrize("make", [pettingzoo_env, pettingzoo_parallel_env])
def test_an_illegal_action_is_retried_spent_or_replaced_as_the_policy_says(make):
    def after_an_illegal_action(illegal):
        env = make("earl/TicTacToe-v0", illegal=illegal)
        env.reset(seed=0)
        infos = [act(env, action) for action in (4, 4)][-1]
        assert infos["player_1"]["illegal_action"] == 4
        assert "illegal_action" not in infos["player_0"]
        return env, infos

    env, infos = after_an_illegal_action("retry(1)")
    assert (env.record().moves, "end_reason" in infos["player_0"]) == ((4,), False)
    assert infos["player_1"]["action_mask"].sum() == 8
    assert act(env, 4)["player_1"]["end_reason"] == "illegal_move"
    env, _ = after_an_illegal_action("noop")
    for _ in range(6):
        assert "end_reason" not in act(env, 4)["player_1"]
    infos = act(env, 4)
    assert infos["player_1"]["end_reason"] == "move_limit"
    assert infos["player_1"]["returns"].tolist() == [0.0, 0.0]
    env, infos = after_an_illegal_action("random_legal")
    assert env.record().moves == (4, infos["player_1"]["substituted"])
    assert "illegal_action" not in act(env, int(infos["player_0"]["action_mask"].argmax()))
    with pytest.raises(ValueError, match="did you mean 'noop'"):
        make("earl/TicTacToe-v0", illegal="nop")


def act(env, action):
    """Make the move of whoever is to move; return everybody's infos."""
    if hasattr(env, "agent_selection"):
        env.step(action)
        return env.infos
    return env.step(dict.fromkeys(env.agents, action))[4]


def test_the_agent_of_a_wrong_action_stays_selected():
    env = pettingzoo_env("earl/TicTacToe-v0", illegal="retry(2)")
    env.reset(seed=0)
    env.step(4)
    env.step(4)
    assert (env.agent_selection, env.last()[1:4]) == ("player_1", (0.0, False, False))
    env.step(0)
    assert env.agent_selection == "player_0"


@pytest.mark.parametrize("action", [-1, 9, 4.0, "4", None, True])
def test_what_is_no_action_is_refused(action):
    env, parallel = (
        pettingzoo_env("earl/TicTacToe-v0"),
        pettingzoo_parallel_env("earl/TicTacToe-v0"),
    )
    env.reset(seed=0)
    parallel.reset(seed=0)
    with pytest.raises(ValueError, match="an action must be"):
        env.step(action)
    with pytest.raises(ValueError, match="an action must be"):
        parallel.step({"player_0": action, "player_1": 0})
    assert env.record().moves == parallel.record().moves == ()


def test_unknown_options_and_early_calls_are_refused():
    for env in (pettingzoo_env("earl/TicTacToe-v0"), pettingzoo_parallel_env("earl/TicTacToe-v0")):
        with pytest.raises(ValueError, match="no option 'speed'"):
            env.reset(seed=0, options={"speed": 1})
        with pytest.raises(ValueError, match="no option 'options'"):
            env.reset(seed=0, options={"options": {"speed": 1}})
        with pytest.raises(ValueError, match="never begun"):
            env.step({"player_0": 0, "player_1": 0})
        with pytest.raises(ValueError, match="no episode has begun"):
            env.record()
        with pytest.raises(ValueError, match="unknown agent 'nobody'"):
            env.observation_space("nobody")
        with pytest.raises(ValueError, match="unknown agent 'nobody'"):
            env.action_space("nobody")
    env = pettingzoo_env("earl/TicTacToe-v0")
    with pytest.raises(ValueError, match=r"no episode has begun: call reset\(\)"):
        env.last()
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"unknown agent 'nobody' \(valid: player_0, player_1\)"):
        env.observe("nobody")
    with pytest.raises(ValueError, match="unknown game"):
        pettingzoo_env("earl/TicTacTo-v0")


def test_rules_that_raise_truncate_with_nothing_won():
    env = pettingzoo_env("faces/Faulty-v0", method="apply")
    env.reset(seed=0)
    for action in (2, 2, 0):
        env.step(action)
    assert env.truncations == {"player_0": True, "player_1": True}
    assert env.terminations == {"player_0": False, "player_1": False}
    assert env.rewards == {"player_0": 0.0, "player_1": 0.0}
    assert env.infos["player_0"]["end_reason"] == "env_error"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_mid_game_has_the_same_state_and_future(copied):
    env = pettingzoo_env("faces/Climb-v0")
    env.reset(seed=2)
    env.step(1)
    twin = copied(env)
    assert np.array_equal(
        twin.observe("player_0")["observation"], env.observe("player_0")["observation"]
    )
    for _ in range(7):
        env.step(1 if env.last()[0]["action_mask"][1] else 0)
        twin.step(1 if twin.last()[0]["action_mask"][1] else 0)
        assert data_equivalence(env.last(), twin.last())
    env.reset()
    twin.reset()
    assert env.record() == twin.record()


def test_the_parallel_environment_plays_the_same_games(game_id):
    env, parallel = pettingzoo_env(game_id), pettingzoo_parallel_env(game_id)
    env.reset(seed=7)
    _, infos = parallel.reset(seed=7)
    while parallel.agents:
        active = infos["player_0"]["active_agent"]
        assert active == env.agent_selection
        action = int(np.flatnonzero(infos[active]["action_mask"])[-1])
        actions = dict.fromkeys(parallel.agents, 99) | {active: action}
        env.step(action)
        observations, rewards, terminations, truncations, infos = parallel.step(actions)
        assert (rewards, terminations, truncations) == (
            env.rewards,
            env.terminations,
            env.truncations,
        )
        for agent in env.agents:
            assert data_equivalence(observations[agent], env.observe(agent))
    assert env.record() == parallel.record()
    assert env.record().positions()[-1].returns == tuple(env.rewards.values())


def test_the_parallel_environment_names_whose_action_is_missing():
    env = pettingzoo_parallel_env("earl/TicTacToe-v0")
    env.reset(seed=0)
    with pytest.raises(
        ValueError, match=r"it is the turn of player_0, got actions of \['player_1'\]"
    ):
        env.step({"player_1": 0})
    with pytest.raises(ValueError, match="must be a dict, agent to action, got None"):
        env.step(None)


def test_rendering_needs_a_known_mode():
    env = pettingzoo_env("earl/TicTacToe-v0", render_mode="ansi")
    env.reset(seed=0)
    env.step(4)
    assert env.render() == "1 2 3\n4 O 6\n7 8 9"
    unknown = pettingzoo_parallel_env("earl/TicTacToe-v0", render_mode="human")
    unknown.reset(seed=0)
    with pytest.raises(ValueError, match="needs render_mode"):
        unknown.render()
