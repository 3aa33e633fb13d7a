"""What is alike in every episode played by text."""

import inspect
import json
import subprocess
import sys

import pytest
from earl_envs.end_reason import EndReason
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.text_episode import TextEpisode
from earl_envs.text.usage import TokenUsage


class Echo(TextEpisode):
    """Two seats in turn are told what the other one wrote; "quit" ends it."""

    def __init__(self, *, history: str = "full", max_turns: int = 100_000):
        super().__init__(num_seats=2, history=history, max_turns=max_turns, count_tokens=len)

    def reset(self, *, seed: int) -> None:
        self._clear(seed=seed)
        self._brief(["be short", "be kind"])
        self.seat, self._message = 0, "begin"

    def step(self, reply: str, *, cut: bool = False) -> ChatStep:
        self._check_running()
        self._account(reply, cut=cut)
        self.num_turns += 1
        if reply == "quit":
            self._end(EndReason.FINISHED, "", (1.0, -1.0))
        elif not self._out_of_turns():
            self.seat, self._message = 1 - self.seat, reply
        return ChatStep(action=None)

    def _news(self, seat: int) -> str:
        return "wait"


def _begun(**options) -> Echo:
    episode = Echo(**options)
    episode.reset(seed=3)
    return episode


def _contents(episode: TextEpisode, seat: int) -> list[str]:
    return [message.content for message in episode.messages(seat)]


def test_each_seat_has_its_own_rules_past_and_news():
    episode = _begun()
    episode.step("a")
    episode.step("b")
    assert (episode.seat, episode.num_turns, episode.seed) == (0, 2, 3)
    assert _contents(episode, 0) == ["be short", "begin", "a", "b"]
    assert _contents(episode, 1) == ["be kind", "a", "b", "wait"]
    assert (episode.observation(0), episode.observation(1)) == ("b", "wait")


def test_replies_and_usage_are_told_as_they_were_when_asked():
    episode = _begun(history="last-1")
    episode.step("one")
    early = (episode.replies, episode.usage)
    for reply in ("two!", "three"):
        episode.step(reply, cut=True)
    assert early == (
        ("one",),
        (TokenUsage(seat=0, turn=0, prompt_tokens=8 + 5, reply_tokens=3, cut=False),),
    )
    assert episode.replies == ("one", "two!", "three")
    assert episode.usage[2] == TokenUsage(
        seat=0, turn=2, prompt_tokens=8 + (5 + 3) + 4, reply_tokens=5, cut=True
    )


def test_an_end_scores_as_it_is_told_and_cuts_and_failures_nobody():
    won, cut, failed = _begun(), _begun(max_turns=1), _begun()
    won.step("quit")
    cut.step("a")
    failed.fail(EndReason.OPPONENT_ERROR, "no line")
    assert (won.returns, won.end_reason) == ((1.0, -1.0), EndReason.FINISHED)
    assert (cut.returns, cut.end_reason) == ((0.0, 0.0), EndReason.MOVE_LIMIT)
    assert (failed.returns, failed.detail) == ((0.0, 0.0), "no line")
    for over in (won, cut, failed, Echo()):
        assert over.done
        with pytest.raises(ValueError, match="the episode is over or was never begun"):
            over.fail(EndReason.ENV_ERROR)


def test_reset_forgets_the_last_episode():
    episode = _begun()
    fresh = [_contents(episode, seat) for seat in (0, 1)]
    episode.step("quit")
    episode.reset(seed=3)
    assert [_contents(episode, seat) for seat in (0, 1)] == fresh
    assert (episode.replies, episode.usage, episode.num_turns) == ((), (), 0)
    assert (episode.returns, episode.end_reason) == (None, None)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Echo(max_turns=0), "max_turns must be >= 1, got 0"),
        (lambda: Echo(history="fll"), "did you mean 'full'"),
        (lambda: Echo().reset(seed=-1), "seed must be >= 0, got -1"),
        (lambda: _begun().messages(2), r"seat must be in 0\.\.1, got 2"),
        (lambda: _begun().observation(-1), r"seat must be in 0\.\.1, got -1"),
        (lambda: _begun().fail(EndReason.FINISHED), "one of .*; got 'finished'"),
        (lambda: _begun().prompt_tokens(2), r"seat must be in 0\.\.1, got 2"),
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_the_length_of_a_prompt_is_known_before_the_reply():
    episode = _begun(history="last-1")
    for reply in ("one", "two!", "three"):
        for seat in (0, 1):
            assert episode.prompt_tokens(seat) == sum(map(len, _contents(episode, seat)))
        episode.step(reply)


# In a process of its own: under these tests the annotations refuse the values before it.
MISUSES = {
    "begun().step(None)": "a reply must be a string, got None",
    "begun().step(b'[1]')": "a reply must be a string, got b'[1]'",
    "begun().step(5)": "a reply must be a string, got 5",
    "begun().step('[1]', cut=1)": "cut must be True or False, got 1",
    "begun().play(None)": "action must be an integer, got None",
    "begun().fail('no reason')": "; got 'no reason'",
    "begun(history=5)": "unknown history policy '5'",
    "begun(history=None)": "unknown history policy 'None'",
    "begun(illegal=5)": "unknown illegal-move policy '5'",
    "begun(max_turns='a')": "max_turns must be an integer, got 'a'",
    "begun(count_tokens=5)": "count_tokens must be a function of a text, got 5",
    "make_history(5)": "unknown history policy '5'",
    "make_illegal_policy(None)": "unknown illegal-move policy 'None'",
    "TextProtocol(game).parse(None, (0, 0))": "a reply must be a string, got None",
    "words('numba').turn([None])": "a reply must be a string, got None",
    "words('numba').turn(['[1]', 5])": "a reply must be a string, got 5",
    "words('generic').turn([b'[1]'])": "a reply must be a string, got b'[1]'",
    "words('numba').turn('[')": "replies must be a list of strings, got '['",
    "words('generic').turn(5)": "replies must be a list of strings, got 5",
}

PROGRAM = """
import json, sys
from earl_envs import ChatEnv, TextProtocol, make_batch, make_game, make_history
from earl_envs import make_illegal_policy
from earl_envs.text.batch_text import BatchText

game = make_game("earl/TicTacToe-v0")

def begun(**options):
    env = ChatEnv(game, **options)
    env.reset(seed=0)
    return env

def words(backend):
    return BatchText(make_batch("earl/TicTacToe-v0", batch_size=NUM, seed=0, backend=backend))

def outcome(code):
    global NUM
    NUM = 2 if "," in code else 1
    try:
        return repr(eval(code))
    except Exception as error:
        return f"{type(error).__name__}: {error}"

print(json.dumps([outcome(code) for code in json.loads(sys.argv[1])]))
"""


def test_no_entry_by_text_answers_a_misuse_with_a_raw_error():
    program = [sys.executable, "-c", PROGRAM, json.dumps([*MISUSES])]
    ran = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    outcomes = dict(zip(MISUSES, json.loads(ran.stdout), strict=True))
    for misuse, complaint in MISUSES.items():
        assert outcomes[misuse].startswith("ValueError: "), (misuse, outcomes[misuse])
        assert complaint in outcomes[misuse], (misuse, outcomes[misuse])


def test_a_refused_reply_leaves_the_episode_as_it_was():
    episode = _begun()
    with pytest.raises(ValueError, match="a reply must be a string, got None"):
        inspect.unwrap(episode._account.__func__)(episode, None, cut=False)
    assert (episode.seat, episode.replies, episode.usage) == (0, (), ())


def test_a_refused_seed_leaves_the_episode_as_it_was():
    episode = _begun()
    episode.step("a")
    with pytest.raises(ValueError, match="seed"):
        episode.reset(seed=-1)
    assert (episode.seat, episode.seed, episode.replies) == (1, 3, ("a",))


# In a process of its own, as the type checks of this one take longer than a step.
TIMED = """
import time
from earl_envs import make_game
from earl_envs.text.chat_env import ChatEnv

def least_time_s(env):
    times = []
    for _ in range(20):
        start_s = time.thread_time()
        for _ in range(50):
            env.step("no move")
        times.append(time.thread_time() - start_s)
    return min(times)

for history in ("full", "last-3", "board-only"):
    env = ChatEnv(
        make_game("earl/TicTacToe-v0"), history=history, illegal="noop", max_turns=100_000
    )
    env.reset(seed=0)
    early_s = least_time_s(env)
    for _ in range(20_000):
        env.step("no move")
    print(least_time_s(env) / early_s)
"""


def test_a_late_step_takes_no_longer_than_an_early_one():
    ran = subprocess.run(
        [sys.executable, "-c", TIMED], capture_output=True, text=True, check=True, timeout=120
    )
    # With a copy of the past in every step the late ones take many times as long.
    assert max(map(float, ran.stdout.split())) < 2.5
