"""The Gymnasium environment of words."""

import copy
import pickle

import gymnasium
import pytest
from earl_envs.faces.gymnasium_text_env import AnyText, GameTextEnv
from earl_envs.faces.text_limits import TextLimits
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

GAMES = ["earl/TicTacToe", "earl/ConnectFour", "faces/LastStone", "faces/Climb"]
RULES = "Take 1 to 3 stones, such as [2]. Whoever takes the last one wins."


def make(**kwargs):
    return gymnasium.make("faces/LastStone-Text-v0", **kwargs)


class TakesOne:
    """Always takes one stone."""

    def move(self, game, state, seat, rng):
        return 0


@pytest.mark.parametrize("game", GAMES)
def test_gymnasiums_checker_passes(game):
    check_env(gymnasium.make(f"{game}-Text-v0").unwrapped)


def test_gymnasiums_checker_passes_from_the_second_seat():
    check_env(make(seat=1).unwrapped)


def test_the_first_message_has_the_rules_and_the_next_the_board_alone():
    env = make(opponent=TakesOne())
    message, info = env.reset(seed=0)
    assert message == f"{RULES}\n\n11 stones"
    assert info["messages"] == [
        {"role": "system", "content": RULES},
        {"role": "user", "content": "11 stones"},
    ]
    message, reward, terminated, truncated, info = env.step("<think>[3]?</think> I take [2].")
    assert (message, reward, terminated, truncated) == ("8 stones", 0.0, False, False)
    assert [message["role"] for message in info["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]
    assert env.reset(seed=0)[0] == f"{RULES}\n\n11 stones", "nothing of the last episode is kept"
    assert len(env.reset(seed=0)[1]["messages"]) == 2


def test_every_reply_is_accounted_for_and_the_turns_to_come_are_told():
    env = make(opponent=TakesOne(), count_tokens=len, illegal="retry(1)")
    _, first = env.reset(seed=0)
    assert "usage" not in first
    assert first["predicted_remaining_turns"] == 11 / 2
    told = sum(len(message["content"]) for message in first["messages"])
    info = env.step("hm")[4]
    assert info["usage"] == {
        "seat": 0, "turn": 0, "prompt_tokens": told, "reply_tokens": 2, "cut": False
    }  # fmt: skip
    told = sum(len(message["content"]) for message in info["messages"])
    info = env.step("it is [3]")[4]
    assert (info["usage"]["prompt_tokens"], info["usage"]["reply_tokens"]) == (told, 9)
    assert info["predicted_remaining_turns"] == 9 / 2
    while True:
        _, _, terminated, _, info = env.step("[1]")
        if terminated:
            break
    assert "predicted_remaining_turns" not in info
    assert info["usage"]["turn"] == 8


@pytest.mark.parametrize(
    ("limits", "reply", "reason", "num_moves"),
    [
        (TextLimits(turns=2), "[1]", "move_limit", 2),
        (TextLimits(reply_tokens=4), "so [", "turn_token_limit", 0),
        (TextLimits(context_tokens=len(RULES) + 20), "[1]", "context_limit", 2),
        (TextLimits(context_tokens=len(RULES) + 14), "[1] or ", "turn_token_limit", 0),
    ],
)
def test_an_episode_at_its_limit_is_truncated_and_worth_nothing(limits, reply, reason, num_moves):
    env = make(opponent=TakesOne(), limits=limits, count_tokens=len)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated, info["end_reason"]) == (0.0, False, True, reason)
    assert (info["winner"], info["returns"].tolist()) == (-1, [0, 0])
    assert len(env.unwrapped.record().moves) == num_moves


def test_a_reply_that_fills_its_room_with_an_answer_counts():
    env = make(opponent=TakesOne(), limits=TextLimits(reply_tokens=3), count_tokens=len)
    env.reset(seed=0)
    info = env.step("[1]")[4]
    assert info["usage"]["cut"]
    assert "end_reason" not in info


def test_a_first_prompt_that_does_not_fit_is_told_by_the_first_step():
    env = make(limits=TextLimits(context_tokens=5))
    assert env.reset(seed=0)[1]["end_reason"] == "context_limit"
    _, reward, terminated, truncated, info = env.step("[1]")
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert info["detail"].endswith("leaves no room for a reply")
    assert "usage" not in info


@pytest.mark.parametrize("opponent", [None, "self"])
def test_each_seat_is_told_the_rules_when_the_agent_plays_them_all(opponent):
    env = make(opponent=opponent)
    told = [env.reset(seed=0)[0], env.step("[3]")[0], env.step("[3]")[0]]
    assert told == [f"{RULES}\n\n11 stones", f"{RULES}\n\n8 stones", "5 stones"]


def test_the_history_policy_decides_what_is_repeated():
    env = make(opponent=None, history="board-only")
    env.reset(seed=0)
    for _ in range(4):
        info = env.step("[1]")[4]
        assert [message["role"] for message in info["messages"]] == ["system", "user"]


def test_the_last_info_says_who_won():
    env = make(opponent=None, stones=2)
    env.reset(seed=0)
    message, reward, terminated, truncated, info = env.step("[2]")
    assert (message, reward, terminated, truncated) == ("0 stones", 1.0, True, False)
    assert (info["winner"], info["end_reason"], info["returns"].tolist()) == (
        0,
        "finished",
        [1, -1],
    )
    assert "messages" not in info
    env.reset(seed=0)
    env.step("[1]")
    _, reward, _, _, info = env.step("[1]")
    assert (reward, info["winner"], info["seat"]) == (1.0, 1, 1), "paid as the seat that replied"


@pytest.mark.parametrize(
    ("reply", "reason"),
    [("", "unparsable"), ("two", "unparsable"), ("[3]", "illegal_move"), ("[4]", "unparsable")],
)
def test_a_reply_without_a_legal_move_forfeits_by_default(reply, reason):
    env = make(opponent=TakesOne(), stones=2)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(reply)
    assert (reward, terminated, truncated) == (-1.0, True, False)
    assert (info["end_reason"], info["failure"], info["winner"]) == (reason, reason, 1)
    assert info["detail"]


def test_other_policies_go_on_and_say_what_was_wrong():
    env = make(opponent=TakesOne(), illegal="retry(1)")
    env.reset(seed=0)
    message, _, terminated, _, info = env.step("hello")
    assert (terminated, info["failure"]) == (False, "unparsable")
    assert info["detail"] in message
    env = make(opponent=TakesOne(), illegal="random_legal")
    env.reset(seed=0)
    info = env.step("hello")[4]
    assert info["substituted"] == env.unwrapped.record().moves[0]


@pytest.mark.parametrize("reply", ["é\u2603\x00\x1b[2J", "x" * 10**6, "[" * 5000])
def test_any_string_is_a_reply(reply):
    env = make()
    env.reset(seed=0)
    assert reply in env.action_space
    assert env.step(reply)[2] is True


def test_other_replies_and_finished_episodes_are_refused():
    env = GameTextEnv("faces/LastStone-v0", stones=1)
    with pytest.raises(ValueError, match="call reset"):
        env.step("[1]")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="a reply must be a string, got 1"):
        env.step(1)
    env.step("[1]")
    with pytest.raises(ValueError, match=r"the episode is over \(finished\): call reset"):
        env.step("[1]")
    with pytest.raises(ValueError, match="takes no option 'speed'"):
        env.reset(options={"speed": 1})
    with pytest.raises(ValueError, match="unknown history policy"):
        GameTextEnv("faces/LastStone-v0", history="none")


def test_failures_are_truncations_without_a_winner():
    class Broken:
        def move(self, game, state, seat, rng):
            raise RuntimeError("out of order")

    env = make(opponent=Broken())
    env.reset(seed=0)
    message, reward, terminated, truncated, info = env.step("[1]")
    assert (message, reward, terminated, truncated) == ("10 stones", 0.0, False, True)
    assert (info["end_reason"], info["winner"]) == ("opponent_error", -1)
    # The second seat has no first turn: the first step tells.
    env = make(opponent=Broken(), seat=1)
    assert env.reset(seed=0)[1]["end_reason"] == "opponent_error"
    assert env.step("[1]")[1:4] == (0.0, False, True)
    broken = gymnasium.make("faces/Faulty-Text-v0", method="text", opponent=None)
    broken.reset(seed=0)
    broken.step("[3]")
    message, reward, terminated, truncated, info = broken.step("[3]")
    assert (message, reward, terminated, truncated) == ("", 0.0, False, True)
    assert info["end_reason"] == "env_error"


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_in_mid_game_has_the_same_state_and_future(copied):
    env = gymnasium.make("earl/ConnectFour-Text-v0", seat=1, illegal="random_legal")
    env.reset(seed=3)
    env.step("[4]")
    twin = copied(env)
    for reply in ("[4]", "no move", "[1]"):
        ours = env.step(reply)
        assert data_equivalence(ours, twin.step(reply))
    assert env.unwrapped.record() == twin.unwrapped.record()
    assert env.unwrapped.record().positions()


def test_the_same_moves_in_words_and_numbers_meet_the_same_opponent():
    words = gymnasium.make("earl/ConnectFour-Text-v0")
    numbers = gymnasium.make("earl/ConnectFour-v0")
    for seed in (9, None):
        words.reset(seed=seed)
        numbers.reset(seed=seed)
        done = False
        while not done:
            column = int(numbers.unwrapped.record().moves.count(0) % 7)
            _, reward, done, _, _ = numbers.step(column)
            assert words.step(f"[{column + 1}]")[1:3] == (reward, done)
        assert words.unwrapped.record() == numbers.unwrapped.record()


def test_rendering():
    env = gymnasium.make("earl/TicTacToe-Text-v0", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "1 2 3\n4 5 6\n7 8 9"


def test_the_space_holds_all_strings_and_draws_printable_ones():
    space = AnyText()
    space.seed(0)
    drawn = [space.sample() for _ in range(50)]
    assert max(map(len, drawn)) > 32
    assert all(text.isascii() for text in drawn)
    assert "\u2603" * 10**6 in space
    assert 3 not in space
    assert space == AnyText()


def reply_to(message):
    return "[3]" if "11" in message else "[1]"


def trajectories(envs, num_steps):
    messages, infos = envs.reset(seed=5)
    seen = [(messages, infos["messages"].tolist())]
    for _ in range(num_steps):
        messages, rewards, terminated, _, infos = envs.step([*map(reply_to, messages)])
        seen.append((messages, rewards.tolist(), terminated.tolist(), infos["seat"].tolist()))
    return seen


def test_a_vector_environment_keeps_the_final_board():
    envs = gymnasium.make_vec(
        "faces/LastStone-Text-v0",
        num_envs=3,
        vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
    )
    assert isinstance(envs, SyncVectorEnv)
    messages, _ = envs.reset(seed=5)
    while True:
        messages, _, terminated, _, infos = envs.step([*map(reply_to, messages)])
        if terminated.any():
            break
    over = int(terminated.argmax())
    assert infos["final_obs"][over] == "0 stones"
    assert infos["final_info"]["end_reason"][over] == "finished"
    assert messages[over] == f"{RULES}\n\n11 stones"


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_worker_processes_play_the_same_games(context):
    def make_one():
        return GameTextEnv("earl/ConnectFour-v0", illegal="random_legal")

    alone = trajectories(SyncVectorEnv([make_one] * 2), 12)
    workers = AsyncVectorEnv([make_one] * 2, shared_memory=False, context=context)
    try:
        assert trajectories(workers, 12) == alone
    finally:
        workers.close()
