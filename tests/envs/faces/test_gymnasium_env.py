"""The Gymnasium environment with numbered moves."""

import copy
import pickle
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from earl_envs.faces.gymnasium_env import GameEnv
from gymnasium.utils.env_checker import check_env, data_equivalence

GAMES = ["earl/TicTacToe-v0", "earl/ConnectFour-v0", "faces/LastStone-v0", "faces/Climb-v0"]


def play(env, *, seed, choose=lambda mask: int(np.flatnonzero(mask)[-1])):
    """Play one episode; return every step's result."""
    board, info = env.reset(seed=seed)
    steps = [(board, info)]
    while True:
        step = env.step(choose(info["action_mask"]))
        steps.append(step)
        info = step[4]
        if step[2] or step[3]:
            return steps


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("game_id", GAMES)
def test_gymnasiums_checker_passes_from_each_seat(game_id, seat):
    if game_id == "faces/Climb-v0" and seat:
        pytest.skip("has one seat")
    env = gymnasium.make(game_id, seat=seat)
    check_env(env.unwrapped)
    env.close()


def test_gymnasiums_checker_passes_without_an_opponent():
    check_env(gymnasium.make("earl/TicTacToe-v0", opponent=None).unwrapped)


@pytest.mark.parametrize("game_id", GAMES)
def test_an_episode_replays_from_its_record(game_id):
    env = gymnasium.make(game_id)
    play(env, seed=3)
    record = env.unwrapped.record()
    assert record.game_id == game_id
    assert record.positions()[-1].returns is not None


def test_the_last_info_says_who_won():
    env = gymnasium.make("earl/TicTacToe-v0", opponent=None)
    for moves, winner in (((0, 3, 1, 4, 2), 0), ((0, 3, 1, 4, 8, 5), 1)):
        env.reset(seed=0)
        for move in moves[:-1]:
            assert "winner" not in env.step(move)[4]
        _, reward, terminated, truncated, info = env.step(moves[-1])
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert (info["winner"], info["end_reason"]) == (winner, "finished")
        assert info["returns"][winner] == 1.0
        assert info["returns"].sum() == 0.0
    env.reset(seed=0)
    for move in (0, 1, 2, 4, 3, 5, 7, 6, 8):
        step = env.step(move)
    assert (step[1], step[4]["winner"]) == (0.0, -1)


def test_the_board_is_that_of_the_seat():
    env = gymnasium.make("earl/TicTacToe-v0", seat=1)
    board, info = env.reset(seed=0)
    assert board[1].sum() == 1, "the opponent's stone lies on the second plane"
    assert board[0].sum() == 0
    assert info["seat"] == 1
    assert info["action_mask"].dtype == np.int8
    assert info["action_mask"].sum() == 8


def test_an_illegal_action_forfeits_by_default():
    env = gymnasium.make("earl/TicTacToe-v0", opponent=None)
    env.reset(seed=0)
    env.step(4)
    _, reward, terminated, truncated, info = env.step(4)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert (info["end_reason"], info["winner"]) == ("illegal_move", 0)
    kept = gymnasium.make("earl/TicTacToe-v0", opponent=None, illegal="retry(2)")
    kept.reset(seed=0)
    kept.step(4)
    assert kept.step(4)[2] is False


@pytest.mark.parametrize("action", [-1, 9, 4.0, "4", None, True])
def test_what_is_no_action_is_refused_and_changes_nothing(action):
    env = GameEnv("earl/TicTacToe-v0", opponent=None)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="an action must be"):
        env.step(action)
    assert env.record().moves == ()


def test_finished_and_unbegun_environments_are_refused():
    env = GameEnv("earl/TicTacToe-v0")
    for call in (lambda: env.step(0), env.record):
        with pytest.raises(ValueError, match="no episode has begun: call reset"):
            call()
    play(env, seed=0)
    with pytest.raises(ValueError, match=r"the episode is over \(finished\): call reset"):
        env.step(0)


def test_unknown_arguments_are_refused():
    with pytest.raises(ValueError, match="reset\\(\\) takes no option 'speed'"):
        GameEnv("earl/TicTacToe-v0").reset(options={"speed": 1})
    with pytest.raises(ValueError, match=r"seat must be in 0\.\.1, got 2"):
        GameEnv("earl/TicTacToe-v0", seat=2)
    with pytest.raises(ValueError, match="unknown opponent 'randon'; did you mean 'random'"):
        GameEnv("earl/TicTacToe-v0", opponent="randon")
    with pytest.raises(ValueError, match="unknown illegal-move policy"):
        GameEnv("earl/TicTacToe-v0", illegal="ignore")
    with pytest.raises(ValueError, match="unknown render mode"):
        GameEnv("earl/TicTacToe-v0", render_mode="human")
    with pytest.raises(ValueError, match="cannot be made with"):
        GameEnv("earl/TicTacToe-v0", rows=4)


def test_a_series_of_episodes_depends_on_the_seed_alone():
    def series(env, seed):
        return [(play(env, seed=each), env.unwrapped.record()) for each in (seed, None, None)]

    env = gymnasium.make("earl/ConnectFour-v0")
    first, again, other = series(env, 5), series(env, 5), series(env, 6)
    fresh = series(gymnasium.make("earl/ConnectFour-v0"), 5)
    assert data_equivalence([steps for steps, _ in first], [steps for steps, _ in again])
    assert [record for _, record in first] == [record for _, record in fresh]
    assert len({record.moves for _, record in (*first, *other)}) == 6


def test_process_global_chance_is_left_alone():
    # In a process of its own: the type checker of the tests draws from `random`.
    code = """
import random, gymnasium, numpy as np
from earl_envs.faces.registration import register_with_frameworks
register_with_frameworks("earl/ConnectFour-v0")
env = gymnasium.make("earl/ConnectFour-v0", illegal="random_legal")
words = gymnasium.make("earl/ConnectFour-Text-v0", illegal="random_legal")
state = lambda: (random.getstate(), np.random.get_state()[1].tolist())
before = state()
for seed in (1, None):
    env.reset(seed=seed)
    words.reset(seed=seed)
    while not env.step(3)[2]: pass
    while not words.step("?")[2]: pass
assert state() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_a_seed_series_differ():
    envs = [GameEnv("earl/ConnectFour-v0") for _ in range(2)]
    for env in envs:
        play(env, seed=None)
    assert envs[0].record() != envs[1].record()


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_mid_game_has_the_same_state_and_future(copied):
    env = gymnasium.make("earl/ConnectFour-v0")
    _, info = env.reset(seed=2)
    info = env.step(3)[4]
    twin = copied(env)
    for _ in range(2):  # this episode and the next
        while True:
            action = int(np.flatnonzero(info["action_mask"])[0])
            ours, theirs = env.step(action), twin.step(action)
            assert data_equivalence(ours, theirs)
            info = ours[4]
            if ours[2]:
                break
        board, info = env.reset()
        assert data_equivalence((board, info), twin.reset())


@pytest.mark.parametrize(("method", "obs"), [("apply", "kept"), ("planes", "zeros")])
def test_rules_that_raise_truncate_with_nothing_won(method, obs):
    env = gymnasium.make("faces/Faulty-v0", method=method, opponent=None)
    env.reset(seed=0)
    env.step(2)
    board, reward, terminated, truncated, info = env.step(2)
    if method == "apply":
        board, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["end_reason"], info["winner"]) == ("env_error", -1)
    assert "RuntimeError" in info["detail"]
    assert board.any() == (obs == "kept")


def test_an_opponent_that_raises_truncates_with_nothing_won():
    class Broken:
        def move(self, game, state, seat, rng):
            raise RuntimeError("out of order")

    env = gymnasium.make("earl/TicTacToe-v0", opponent=Broken())
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["end_reason"], info["winner"]) == ("opponent_error", -1)


def test_rendering():
    text = gymnasium.make("earl/TicTacToe-v0", render_mode="ansi", opponent=None)
    text.reset(seed=0)
    text.step(4)
    assert text.render() == "1 2 3\n4 O 6\n7 8 9", "drawn for the seat to move"
    picture = gymnasium.make("earl/TicTacToe-v0", render_mode="rgb_array")
    picture.reset(seed=0)
    assert picture.render().dtype == np.uint8
    silent = GameEnv("earl/TicTacToe-v0")
    silent.reset(seed=0)
    with pytest.raises(ValueError, match="needs render_mode"):
        silent.render()


def test_the_spec_survives_json():
    env = gymnasium.make("earl/TicTacToe-v0", seat=1)
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert data_equivalence(env.reset(seed=3), again.reset(seed=3))
