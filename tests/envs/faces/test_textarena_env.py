"""Games in TextArena."""

import copy
import subprocess
import sys

import pytest

ta = pytest.importorskip("textarena")

from earl_envs.faces.textarena_env import TextArenaGame  # noqa: E402
from earl_envs.faces.textarena_export import register_with_textarena  # noqa: E402

RULES = "Take 1 to 3 stones, such as [2]. Whoever takes the last one wins."


@pytest.fixture(scope="module")
def env_id(registered_games):
    register_with_textarena("faces/LastStone-v0")
    return "faces/LastStone-v0"


class Takes(ta.Agent):
    """A TextArena agent that always replies the same and keeps what it was told."""

    def __init__(self, reply):
        self.reply, self.told = reply, []

    def __call__(self, observation):
        self.told.append(observation)
        return self.reply


def play(env, agents, seed=0):
    env.reset(num_players=len(agents), seed=seed)
    done = False
    while not done:
        player_id, observation = env.get_observation()
        done, _ = env.step(action=agents[player_id](observation))
    return env.close()


def test_textarenas_own_loop_plays_a_game(env_id):
    env = ta.make(env_id)
    agents = {
        0: Takes("<think>a secret of 0</think>[1]"),
        1: Takes("<think>a secret of 1</think>[1]"),
    }
    rewards, info = play(env, agents)
    assert rewards == {0: 1.0, 1: -1.0}
    assert (info[0]["reason"], info[1]["reason"]) == ("finished", "finished")
    assert (info[0]["turn_count"], info[1]["turn_count"]) == (6, 5)
    assert not info[0]["invalid_move"]
    first, last = agents[1].told[0], agents[1].told[-1]
    assert first == f"\n[GAME] {RULES}\n[GAME] 10 stones"
    assert last.endswith("[GAME] 2 stones")
    assert "secret of 1" in last
    assert "secret of 0" not in last, "nobody reads another player's words"
    again = play(env, agents)
    assert again == (rewards, info)
    assert agents[1].told[5] == first, "the second game begins without the first one's history"


def test_a_wrong_reply_loses_and_is_marked(env_id):
    rewards, info = play(ta.make(env_id), {0: Takes("[1]"), 1: Takes("what?")})
    assert rewards == {0: 1.0, 1: -1.0}
    assert info[1]["invalid_move"]
    assert not info[0]["invalid_move"]
    assert info[0]["reason"].startswith("unparsable: ")


def test_a_retry_is_asked_for_with_the_reason():
    env = TextArenaGame("faces/LastStone-v0", illegal="retry(1)")
    env.reset(num_players=2, seed=0)
    env.get_observation()
    done, _ = env.step("what?")
    player_id, observation = env.get_observation()
    assert (done, player_id) == (False, 0)
    assert observation[0][1] == "what?"
    assert observation[-1][1].endswith("11 stones")
    assert env.state.game_info[0]["turn_count"] == 0


def test_raw_observations_are_textarenas_lists(env_id):
    env = ta.make(f"{env_id}-raw")
    env.reset(num_players=2, seed=0)
    player_id, observation = env.get_observation()
    assert player_id == 0
    assert observation == [
        (ta.GAME_ID, RULES, ta.ObservationType.PROMPT),
        (ta.GAME_ID, "11 stones", ta.ObservationType.GAME_BOARD),
    ]


def test_seeds_decide():
    env = TextArenaGame("faces/Climb-v0")
    starts = set()
    for seed in range(20):
        env.reset(num_players=1, seed=seed)
        _, observation = env.get_observation()
        env.reset(num_players=1, seed=seed)
        assert env.get_observation()[1] == observation
        starts.add(observation[-1][1])
    assert len(starts) == 4


@pytest.mark.slow
def test_process_global_chance_is_left_alone():
    # In a process of its own: the type checker of the tests draws from `random`.
    code = """
import random
from earl_envs.faces.textarena_env import TextArenaGame
env = TextArenaGame("earl/TicTacToe-v0")
before = random.getstate()
for seed in (1, None):
    env.reset(num_players=2, seed=seed)
    env.step("[1]")
assert random.getstate() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_misuse_is_refused():
    env = TextArenaGame("faces/LastStone-v0", stones=1)
    with pytest.raises(ValueError, match="num_players must be 2, got 3"):
        env.reset(num_players=3)
    env.reset(num_players=2, seed=0)
    env.step("[1]")
    with pytest.raises(ValueError, match="the episode is over"):
        env.step("[1]")


def test_a_copy_in_mid_game_has_the_same_future(env_id):
    env = ta.make(env_id)
    env.reset(num_players=2, seed=0)
    env.step("[2]")
    twin = copy.deepcopy(env)
    for copied in (env, twin):
        copied.step("[3]")
    assert env.get_observation() == twin.get_observation()
    assert env.record() == twin.record()
    assert env.record().positions()[-1].state == (6, 0)
