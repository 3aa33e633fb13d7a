"""The Gymnasium vector environment."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from earl_envs.faces.gymnasium_env import GameEnv
from earl_envs.faces.gymnasium_vector import GameVectorEnv
from earl_envs.faces.kernel_lanes import KernelLanes
from earl_envs.faces.lanes import AgentLanes
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

GAMES = ["earl/TicTacToe-v0", "earl/ConnectFour-v0", "faces/LastStone-v0", "faces/Climb-v0"]
RESTARTING = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


class TakesLowest:
    """Plays the lowest legal action; not the random opponent, so no kernel is used."""

    def move(self, game, state, seat, rng):
        return game.legal(state)[0]


def choose(masks, rng):
    """Draw a legal action per row, seldom an illegal one, always 0 where there is none."""
    noisy = rng.random(masks.shape) * (masks + (rng.random(masks.shape) < 0.02))
    return noisy.argmax(axis=1)


def run(envs, num_steps, *, seed=3):
    rng = np.random.default_rng(0)
    boards, infos = envs.reset(seed=seed)
    seen = [(boards, infos)]
    for _ in range(num_steps):
        step = envs.step(choose(infos["action_mask"], rng))
        infos = step[4]
        seen.append(step)
    return seen


@pytest.mark.parametrize("mode", RESTARTING)
@pytest.mark.parametrize("opponent", ["random", None])
@pytest.mark.parametrize("game_id", GAMES)
def test_it_does_what_gymnasiums_own_does_over_single_environments(game_id, opponent, mode):
    ours = gymnasium.make_vec(game_id, num_envs=4, opponent=opponent, autoreset_mode=mode)
    assert isinstance(ours, GameVectorEnv)
    theirs = gymnasium.make_vec(
        game_id,
        num_envs=4,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": mode},
        opponent=opponent,
    )
    assert isinstance(theirs, SyncVectorEnv)
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.metadata["autoreset_mode"] is mode
    assert data_equivalence(run(ours, 40), run(theirs, 40))


def one_by_one(game_id, seed, **kwargs):
    env = GameEnv(game_id, **kwargs)
    steps = []
    for episode in range(3):
        board, info = env.reset(seed=seed if episode == 0 else None)
        over = False
        while not over:
            action = int(np.flatnonzero(info["action_mask"])[-1])
            board, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            steps.append((board.tolist(), reward, terminated))
    return steps


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game_id", GAMES[:3])
def test_three_episodes_of_four_environments_are_those_played_one_by_one(game_id, seat):
    envs = gymnasium.make_vec(game_id, num_envs=4, seat=seat, autoreset_mode="SameStep")
    expected = [one_by_one(game_id, 11 + index, seat=seat) for index in range(4)]
    seen = [[] for _ in range(4)]
    _, infos = envs.reset(seed=11)
    for _ in range(max(map(len, expected))):
        last = infos["action_mask"].shape[1] - 1 - infos["action_mask"][:, ::-1].argmax(axis=1)
        boards, rewards, terminated, _, infos = envs.step(last)
        for index in range(4):
            board = infos["final_obs"][index] if terminated[index] else boards[index]
            seen[index].append((board.tolist(), rewards[index], bool(terminated[index])))
    for index in range(4):
        assert seen[index][: len(expected[index])] == expected[index]


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worker_processes_play_the_same_games(context):
    def make_one():
        return GameEnv("earl/ConnectFour-v0")

    ours = run(GameVectorEnv(2, "earl/ConnectFour-v0"), 30)
    workers = AsyncVectorEnv([make_one] * 2, context=context)
    try:
        assert data_equivalence(ours, run(workers, 30))
    finally:
        workers.close()


def test_same_step_keeps_the_final_board_and_info():
    envs = gymnasium.make_vec(
        "earl/TicTacToe-v0", num_envs=2, opponent=None, autoreset_mode="SameStep"
    )
    envs.reset(seed=0)
    for moves in ((0, 0), (3, 1), (1, 3), (4, 4)):
        infos = envs.step(np.array(moves))[4]
        assert "final_obs" not in infos
    boards, rewards, terminated, truncated, infos = envs.step(np.array([2, 5]))
    assert (rewards.tolist(), terminated.tolist(), truncated.any()) == (
        [1.0, 0.0],
        [True, False],
        False,
    )
    assert infos["final_obs"][0][0].tolist() == [[1, 1, 1], [0, 0, 0], [0, 0, 0]]
    assert infos["final_obs"][1] is None
    assert infos["final_info"]["winner"][0] == 0
    assert infos["final_info"]["returns"][0].tolist() == [1.0, -1.0]
    assert infos["final_info"]["end_reason"].tolist() == ["finished", None]
    assert not boards[0].any()
    assert infos["action_mask"].sum(axis=1).tolist() == [9, 4]


@pytest.mark.parametrize("opponent", [None, TakesLowest()])
def test_next_step_spends_a_step_on_the_reset(opponent):
    envs = GameVectorEnv(2, "earl/TicTacToe-v0", opponent=opponent)
    envs.reset(seed=0)
    _, rewards, terminated, _, infos = envs.step([4, 5])
    if opponent is None:
        _, rewards, terminated, _, infos = envs.step([4, 3])
    else:
        _, rewards, terminated, _, infos = envs.step([4, 1])
    assert (rewards.tolist(), terminated.tolist()) == ([-1.0, 0.0], [True, False])
    assert infos["end_reason"].tolist() == ["illegal_move", None]
    moved = envs.record(1).moves
    _, rewards, terminated, _, infos = envs.step([99, 6])  # the first action is not looked at
    assert (rewards.tolist(), terminated.tolist()) == ([0.0, 0.0], [False, False])
    assert envs.record(0).moves == ()
    assert len(envs.record(1).moves) > len(moved)
    assert "end_reason" not in infos


@pytest.mark.parametrize("opponent", ["random", TakesLowest()])
def test_disabled_resets_what_it_is_told_to_and_nothing_else(opponent):
    envs = GameVectorEnv(3, "earl/TicTacToe-v0", opponent=opponent, autoreset_mode="Disabled")
    envs.reset(seed=0)
    first = [int(np.flatnonzero(row)[0]) for row in envs.step([4, 4, 4])[4]["action_mask"]]
    _, _, terminated, _, infos = envs.step([4, first[1], 4])
    assert terminated.tolist() == [True, False, True]
    with pytest.raises(ValueError, match=r"environments \[0, 2\] are over: reset them"):
        envs.step([0, 0, 0])
    options = {"reset_mask": np.array([True, False, False])}
    before = envs.record(1)
    boards, infos = envs.reset(options=options)
    assert "reset_mask" in options, "the caller's options are left alone"
    assert infos["_action_mask"].tolist() == [True, False, False]
    assert envs.record(1) == before
    assert boards[1].any()
    with pytest.raises(ValueError, match=r"environments \[2\] are over"):
        envs.step([0, 0, 0])


def test_a_partial_reset_continues_that_series_alone():
    envs = GameVectorEnv(2, "earl/ConnectFour-v0", seat=1)
    envs.reset(seed=5)
    envs.reset(options={"reset_mask": np.array([False, True])})
    single = GameEnv("earl/ConnectFour-v0", seat=1)
    single.reset(seed=5)
    assert envs.record(0) == single.record()
    single.reset(seed=6)
    single.reset()
    assert envs.record(1) == single.record()


@pytest.mark.parametrize(
    "mask",
    [[True, False], np.array([1, 0]), np.array([True]), np.array([False, False])],
    ids=["list", "ints", "short", "empty"],
)
def test_a_wrong_reset_mask_is_refused(mask):
    envs = GameVectorEnv(2, "earl/TicTacToe-v0")
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="reset_mask must"):
        envs.reset(options={"reset_mask": mask})


@pytest.mark.parametrize("opponent", ["random", TakesLowest()])
@pytest.mark.parametrize(
    "actions", [[0], [0, 9], [0, -1], [0.0, 1.0], [True, True], ["0", "1"], [[0, 1]]]
)
def test_what_are_no_actions_is_refused_and_changes_nothing(actions, opponent):
    envs = GameVectorEnv(2, "earl/TicTacToe-v0", opponent=opponent)
    with pytest.raises(ValueError, match=r"environment 0 was never reset"):
        envs.step([0, 0])
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="action"):
        envs.step(actions)
    assert envs.record(0).moves == envs.record(1).moves == ()


def test_other_arguments_are_refused():
    with pytest.raises(ValueError, match="num_envs must be >= 1, got 0"):
        GameVectorEnv(0, "earl/TicTacToe-v0")
    for opponent in ("random", TakesLowest()):
        with pytest.raises(ValueError, match=r"seat must be in 0\.\.1, got 2"):
            GameVectorEnv(1, "earl/TicTacToe-v0", opponent=opponent, seat=2)
    for game_id in ("earl/TicTacToe-v0", "faces/LastStone-v0"):
        with pytest.raises(ValueError, match="did you mean 'forfeit'"):
            GameVectorEnv(1, game_id, illegal="forfiet")
    with pytest.raises(ValueError, match=r"'Sometimes' \(valid: Disabled, NextStep, SameStep\)"):
        GameVectorEnv(1, "earl/TicTacToe-v0", autoreset_mode="Sometimes")
    envs = GameVectorEnv(2, "earl/TicTacToe-v0")
    with pytest.raises(ValueError, match="no option 'speed'"):
        envs.reset(options={"speed": 1})
    with pytest.raises(ValueError, match="one seed per environment: got 3 for 2"):
        envs.reset(seed=[1, 2, 3])
    with pytest.raises(ValueError, match="seed must be >= 0, got -2"):
        envs.reset(seed=[1, -2])
    with pytest.raises(ValueError, match=r"index must be in 0\.\.1, got 2"):
        envs.record(2)


def test_seeds_are_given_one_by_one_or_by_counting():
    by_list, by_count = (GameVectorEnv(2, "faces/Climb-v0") for _ in range(2))
    by_list.reset(seed=[8, 9])
    by_count.reset(seed=8)
    assert [by_list.record(index) for index in range(2)] == [by_count.record(i) for i in range(2)]
    by_list.reset(seed=[8, None])
    assert by_list.record(0).seed == 8
    assert by_list.record(1).seed not in (8, 9), "None continues the series"
    for seed in (np.int64(8), np.array(8), np.array([8, 9]), (8, np.uint8(9))):
        as_numpy = GameVectorEnv(2, "faces/Climb-v0")
        as_numpy.reset(seed=seed)
        assert [as_numpy.record(index).seed for index in range(2)] == [8, 9]
    unseeded = GameVectorEnv(2, "faces/Climb-v0")
    unseeded.reset()
    assert unseeded.record(0).seed != unseeded.record(1).seed


def test_one_game_that_fails_leaves_its_neighbours_alone():
    class FailsAfterThree:
        def move(self, game, state, seat, rng):
            if state[0] == 8:
                raise RuntimeError("out of order")
            return 0

    envs = GameVectorEnv(3, "faces/LastStone-v0", opponent=FailsAfterThree())
    envs.reset(seed=0)
    _, rewards, terminated, truncated, infos = envs.step([0, 2, 1])
    assert (truncated.tolist(), terminated.any(), rewards.any()) == (
        [False, True, False],
        False,
        False,
    )
    assert infos["end_reason"].tolist() == [None, "opponent_error", None]
    assert infos["winner"][1] == -1
    assert [envs.record(index).moves for index in range(3)] == [(0, 0), (2,), (1, 0)]
    _, _, _, truncated, _ = envs.step([1, 0, 0])
    assert not truncated.any()
    assert envs.record(1).moves == ()


def test_kernels_are_used_where_they_can_be():
    pytest.importorskip("numba")

    def kind(game_id="earl/ConnectFour-v0", **kwargs):
        return type(GameVectorEnv(2, game_id, **kwargs)._lanes)

    assert kind() is kind(opponent=None) is kind(opponent="self") is KernelLanes
    assert kind("faces/LastStone-v0") is AgentLanes
    assert kind(opponent=TakesLowest()) is kind(illegal="noop") is AgentLanes


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda envs: pickle.loads(pickle.dumps(envs))])
@pytest.mark.parametrize("game_id", GAMES)
def test_a_copy_in_mid_game_has_the_same_state_and_future(copied, game_id):
    envs = GameVectorEnv(3, game_id)
    envs.reset(seed=0)
    infos = envs.step([1, 0, 1])[4]
    twin = copied(envs)
    for _ in range(12):
        actions = infos["action_mask"].argmax(axis=1)
        step = envs.step(actions)
        assert data_equivalence(step, twin.step(actions))
        infos = step[4]
    assert [envs.record(index) for index in range(3)] == [twin.record(index) for index in range(3)]


def test_results_are_the_callers_own():
    envs = GameVectorEnv(2, "earl/TicTacToe-v0", opponent=None)
    boards, infos = envs.reset(seed=0)
    first = envs.step([0, 1])
    kept = [np.array(part) for part in first[:4]]
    envs.step([2, 3])
    assert not boards.any()
    assert all(np.array_equal(part, copy) for part, copy in zip(first[:4], kept, strict=True))
    assert infos["action_mask"].all()


def test_rendering():
    envs = GameVectorEnv(2, "earl/TicTacToe-v0", opponent=None, render_mode="ansi")
    envs.reset(seed=0)
    envs.step([4, 0])
    assert envs.render() == ("1 2 3\n4 O 6\n7 8 9", "O 2 3\n4 5 6\n7 8 9")
