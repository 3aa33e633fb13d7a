"""TextArena's games with the surface of a chat environment."""

import re
import subprocess
import sys
import time

import pytest
from earl_envs.end_reason import EndReason
from earl_envs.registry import game_ids, make_game
from earl_envs.text.history import Message
from earl_envs.text.protocol import ParseFailure

pytest.importorskip("textarena")

from earl_envs.adapters.textarena import MAX_REPLY_CHARS, TextArenaEnv


@pytest.fixture
def env():
    env = TextArenaEnv("TicTacToe-v0", num_players=2)
    env.reset(seed=0)
    return env


def play(env, *replies):
    return [env.step(reply) for reply in replies]


def test_a_game_is_played_to_its_end(env):
    assert (env.seat, env.done, env.returns, env.end_reason) == (0, False, None, None)
    steps = play(env, "[0]", "[3]", "[1]", "[4]", "[2]")
    assert all(step.failure is None for step in steps)
    assert (env.seat, env.done, env.returns) == (-1, True, (1.0, -1.0))
    assert (env.end_reason, env.detail) == (EndReason.FINISHED, "Player 0 has won!")
    assert env.num_turns == 5
    assert env.replies == ("[0]", "[3]", "[1]", "[4]", "[2]")


def test_messages_are_a_chat_of_rules_news_and_own_replies(env):
    play(env, "I begin. [4]", "[0]")
    system, first, own, newest = env.messages(0)
    assert system.role == "system"
    assert system.content.startswith("You are Player 0")
    assert first.role == "user"
    assert own == Message(role="assistant", content="I begin. [4]")
    assert newest.content == env.observation(0)
    assert "[Player 1] [0]" in newest.content
    assert not newest.content.startswith("You are Player")


def test_reasoning_reaches_no_other_seat_and_chooses_no_move(env):
    play(env, "<think>[0] is a trap for him</think>[4]")
    assert "trap" not in env.observation(1)
    assert "[Player 0] [4]" in env.observation(1)
    assert "trap" in env.messages(0)[2].content
    play(env, "<thinking>[4]?</thinking><think>[1]</think> [8] <reasoning>unclosed [2]")
    assert "Player 1 placed their symbol (X) in cell 8" in env.observation(0)
    play(env, "opened by the template: [8]</think>[0]")
    assert "in cell 0" in env.observation(1)


@pytest.mark.parametrize("kind", ["<THINK>{}</THINK>", "[THINK]{}[/THINK]", "{}</reasoning>"])
def test_every_kind_of_reasoning_stays_with_its_seat(env, kind):
    play(env, kind.format("[0] is a trap") + "[4]")
    assert "trap" not in env.observation(1)
    assert "in cell 4" in env.observation(1)


@pytest.mark.parametrize("reply", ["", "no move", "[9]", "[4]", "\x00\x1b[31m", "\u4e2d\U0001f600"])
def test_a_refused_reply_forfeits(env, reply):
    play(env, "[4]")
    step = env.step(reply)
    assert step.failure is ParseFailure.ILLEGAL
    assert step.detail == env.detail != ""
    assert (env.end_reason, env.returns) == (EndReason.ILLEGAL_MOVE, (1.0, -1.0))


def test_retries_are_per_turn_and_then_lost():
    env = TextArenaEnv("TicTacToe-v0", num_players=2, illegal="retry(1)")
    env.reset(seed=0)
    wrong, right = play(env, "[9]", "[4]")
    assert (wrong.failure, right.failure) == (ParseFailure.ILLEGAL, None)
    assert (env.seat, env.num_turns) == (1, 1)
    play(env, "[4]")
    assert env.seat == 1
    assert "already occupied" in env.observation(1)
    play(env, "[4]")
    assert (env.end_reason, env.returns) == (EndReason.ILLEGAL_MOVE, (1.0, -1.0))


def test_a_finished_episode_takes_no_reply(env):
    play(env, "nothing")
    assert env.done
    for call in (lambda: env.step("[4]"), lambda: env.fail(EndReason.OPPONENT_ERROR)):
        with pytest.raises(ValueError, match="the episode is over or was never begun"):
            call()
    fresh = TextArenaEnv("TicTacToe-v0", num_players=2)
    with pytest.raises(ValueError, match="never begun"):
        fresh.step("[4]")
    with pytest.raises(ValueError, match=r"there is no news: call reset\(seed=...\) first"):
        fresh.messages(0)


def test_reset_forgets_the_last_episode(env):
    first = [env.messages(seat) for seat in (0, 1)]
    play(env, "[4]", "[4]")
    env.reset(seed=0)
    assert [env.messages(seat) for seat in (0, 1)] == first
    assert (env.replies, env.usage, env.detail, env.returns) == ((), (), "", None)


def test_seed_and_replies_play_the_episode_again():
    def transcript(seed, replies):
        env = TextArenaEnv("KuhnPoker-v0", num_players=2)
        env.reset(seed=seed)
        seen = []
        for reply in replies:
            seen.append(env.messages(env.seat))
            env.step(reply)
            if env.done:
                break
        return seen, env.returns

    replies = ["[check]", "[check]"] * 3
    assert transcript(5, replies) == transcript(5, replies)
    assert len({str(transcript(seed, replies)) for seed in range(6)}) > 1


def test_the_chance_of_the_process_is_left_alone():
    # In a process of its own, as the type checks of this one draw random numbers themselves.
    code = (
        "import random; from earl_envs.adapters.textarena import TextArenaEnv\n"
        "before = random.getstate()\n"
        "env = TextArenaEnv('PigDice-v0', num_players=2); env.reset(seed=1)\n"
        "for _ in range(5): env.step('[roll]')\n"
        "print(env.num_turns, random.getstate() == before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-2:] == ["5", "True"]


def test_a_game_whose_reset_keeps_the_last_board_begins_anew():
    env = TextArenaEnv("Stratego-v0", num_players=2)
    boards = []
    for seed in (1, 1, 2):
        env.reset(seed=seed)
        assert not env.done
        boards.append(env.observation(0))
        env.step("no move")
    assert boards[0] == boards[1] != boards[2]


def test_a_reply_that_is_no_string_is_refused():
    code = (
        "from earl_envs.adapters.textarena import TextArenaEnv\n"
        "env = TextArenaEnv('TicTacToe-v0', num_players=2); env.reset(seed=1)\n"
        "try: env.step(b'[4]')\n"
        "except ValueError as error: print(error, env.seat, env.replies)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "a reply must be a string, got b'[4]' 0 ()"


def test_a_clone_plays_on_by_itself(env):
    play(env, "[4]")
    other = env.clone()
    play(other, "[0]", "[8]")
    assert (env.num_turns, env.seat) == (1, 1)
    assert env.messages(1) != other.messages(1)
    play(env, "[0]", "[8]")
    assert env.messages(1) == other.messages(1)


def test_limits_and_outside_failures_score_nobody(env):
    env.fail(EndReason.OPPONENT_ERROR, "it raised")
    assert (env.returns, env.detail) == ((0.0, 0.0), "it raised")
    env.reset(seed=0)
    with pytest.raises(ValueError, match="an outside reason is one of"):
        env.fail(EndReason.FINISHED)
    env.step("<think>[4] or", cut=True)
    assert (env.end_reason, env.returns) == (EndReason.TURN_TOKEN_LIMIT, (0.0, 0.0))
    short = TextArenaEnv("TicTacToe-v0", num_players=2, max_turns=2)
    short.reset(seed=0)
    play(short, "[4]", "[0]")
    assert (short.end_reason, short.returns) == (EndReason.MOVE_LIMIT, (0.0, 0.0))


def test_a_cut_reply_with_a_move_counts(env):
    env.step("[4] because", cut=True)
    assert env.seat == 1
    assert env.usage[0].cut


def test_a_game_that_raises_ends_as_env_error(env):
    class Broken:
        finished = False

        def move(self, seat, reply):
            from earl_envs.boundary import Failure

            return Failure(error="KeyError: 3")

    env._game = Broken()
    step = env.step("[4]")
    assert step.failure is None
    assert (env.end_reason, env.returns) == (EndReason.ENV_ERROR, (0.0, 0.0))
    assert env.detail == "KeyError: 3"


@pytest.mark.parametrize("reply", ["x" * 1_000_000 + "[col 3]", "[col 3]" + "x" * 1_000_000])
def test_a_million_characters_are_refused_in_no_long_time(reply):
    env = TextArenaEnv("ConnectFour-v0", num_players=2)
    env.reset(seed=0)
    start = time.process_time()
    step = env.step(reply)
    assert time.process_time() - start < 1
    assert (step.action, step.failure) == (None, ParseFailure.UNPARSABLE)
    assert step.detail == env.detail == "a reply has at most 4000 characters, got 1000007"
    assert (env.end_reason, env.returns) == (EndReason.UNPARSABLE, (-1.0, 1.0))


def test_a_long_reply_is_never_read_as_a_part_of_it(env):
    # Tic-Tac-Toe takes the first move of a reply: its end names another.
    env.step("[1]" + " " * (MAX_REPLY_CHARS - 5) + "[2]")
    assert (env.end_reason, env.num_turns) == (EndReason.UNPARSABLE, 0)
    env.reset(seed=0)
    env.step("[1]" + " " * (MAX_REPLY_CHARS - 6) + "[2]")
    assert "in cell 1" in env.observation(1)
    env.step("<think>" + "x" * 2 * MAX_REPLY_CHARS + "</think>[2]")
    assert "in cell 2" in env.observation(0)


@pytest.mark.parametrize(("env_id", "num_players"), [("TicTacToe-v0", 2), ("LiarsDice-v0", 3)])
def test_a_long_reply_is_asked_for_again_as_often_as_any_other(env_id, num_players):
    env = TextArenaEnv(env_id, num_players=num_players, illegal="retry(2)")
    env.reset(seed=0)
    refused = env.step("x" * 5000), env.step("[99]")
    assert [step.failure for step in refused] == [ParseFailure.UNPARSABLE, ParseFailure.ILLEGAL]
    assert (env.seat, env.num_turns, env.done) == (0, 0, False)
    env.reset(seed=0)
    env.step("x" * 5000)
    assert "at most 4000 characters, got 5000" in env.observation(0)
    play(env, "x" * 5000, "x" * 5000)
    assert env.end_reason is EndReason.UNPARSABLE
    assert sum(env.returns) == pytest.approx(0)
    assert env.returns[0] == -1


def test_a_long_reply_that_was_cut_is_no_fault_of_its_seat(env):
    env.step("x" * 5000, cut=True)
    assert (env.end_reason, env.returns) == (EndReason.TURN_TOKEN_LIMIT, (0.0, 0.0))


def test_usage_counts_what_was_sent_and_said():
    env = TextArenaEnv("TicTacToe-v0", num_players=2, history="board-only", count_tokens=len)
    env.reset(seed=0)
    for reply in ("[4]", "go [0]", "[8]"):
        prompt = sum(len(message.content) for message in env.messages(env.seat))
        env.step(reply)
        assert (env.usage[-1].prompt_tokens, env.usage[-1].reply_tokens) == (prompt, len(reply))
    assert [usage.seat for usage in env.usage] == [0, 1, 0]
    assert [message.role for message in env.messages(1)] == ["system", "user"]


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("TicTacToe-v0", {"num_players": 3}, "number of players has to be 2, received 3"),
        ("TicTacTo-v0", {"num_players": 2}, "did you mean 'TicTacToe-v0'"),
        ("TicTacToe-v0", {"num_players": 2, "illegal": "noop"}, "they list no legal moves"),
        ("TicTacToe-v0", {"num_players": 2, "illegal": "random_legal"}, "know 'forfeit' and 'ret"),
        ("PublicGoodsGame-v0", {"num_players": 3}, "cannot start .*looks for the next one without"),
        ("PublicGoodsGame-v0-raw", {"num_players": 3}, "cannot start .*without end"),
        ("TicTacToe-v0", {"num_players": 2, "max_turns": 0}, "max_turns must be >= 1, got 0"),
        ("TicTacToe-v0", {"num_players": 2, "history": "all"}, "history policy"),
    ],
)
def test_what_cannot_be_played_is_refused_at_once(env_id, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        TextArenaEnv(env_id, **options)
    assert "\n" not in str(caught.value)


def test_the_family_lists_ids_and_says_how_to_play_them():
    ids = game_ids("textarena")
    assert "textarena/TicTacToe-v0" in ids
    assert len(ids) > 100
    assert TextArenaEnv("textarena/TicTacToe-v0", num_players=2).env_id == "TicTacToe-v0"
    with pytest.raises(ValueError, match=r"TextArenaEnv\('TicTacToe-v0', num_players=...\)"):
        make_game("textarena/TicTacToe-v0")


# What the rest of TextArena 0.7.4 needs: data, services, libraries, or a newer Python.
NEEDS = re.compile(
    "NLTK|API key|No module named|SyntaxError|directory not found|No such file|without end"
)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("game_id", [i for i in game_ids("textarena") if i.endswith("-v0")])
def test_every_game_plays_or_says_why_not(game_id, monkeypatch):
    monkeypatch.setattr("nltk.download", lambda *args, **options: False)
    refusals = []
    for num_players in (2, 1, 3, 4, 6):
        try:
            env = TextArenaEnv(game_id, num_players=num_players, illegal="retry(1)")
        except ValueError as error:
            refusals.append(str(error))
            continue
        env.reset(seed=1)
        for reply in ("[1 2]", "[0]", "", "I pass. [pass]", "[a1 a2]", "[3]") * 2:
            if env.done:
                break
            assert env.messages(env.seat)[-1].role == "user"
            env.step(reply)
        assert not env.done or len(env.returns) == num_players
        return
    assert all(len(refusal.splitlines()) == 1 for refusal in refusals)
    assert any(NEEDS.search(refusal) for refusal in refusals), refusals
