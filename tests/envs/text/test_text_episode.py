"""What is alike in every episode played by text."""

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
    ],
)
def test_wrong_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


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
