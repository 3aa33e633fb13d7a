"""One player's past: what it is sent, and how long that is."""

import pytest
from earl_envs.text.history import make_history
from earl_envs.text.transcript import Transcript


def _transcript(history: str) -> Transcript:
    transcript = Transcript(
        history=make_history(history), count_tokens=len, system="rules", system_tokens=5
    )
    for n in range(4):
        transcript.add(f"board {n}", f"[{n}]{'!' * n}")
    return transcript


@pytest.mark.parametrize("history", ["full", "last-1", "last-3", "last-9", "board-only"])
def test_counted_tokens_are_those_of_the_messages(history):
    for transcript in (_transcript(history), _transcript(history).copy()):
        *past, newest = transcript.messages("now")
        assert newest.content == "now"
        assert transcript.past_tokens == sum(len(message.content) for message in past)


def test_texts_are_counted_once():
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    transcript = Transcript(
        history=make_history("full"), count_tokens=count, system="rules", system_tokens=5
    )
    exchange = transcript.add("board", "[1]")
    assert (exchange.message_tokens, exchange.reply_tokens, transcript.past_tokens) == (5, 3, 13)
    transcript.copy()
    assert counted == ["board", "[1]"]


def test_a_copy_grows_by_itself():
    old = _transcript("full")
    new = old.copy()
    new.add("board 4", "[4]")
    assert [message.content for message in old.messages("x")][-3:] == ["board 3", "[3]!!!", "x"]
    assert [message.content for message in new.messages("x")][-3:] == ["board 4", "[4]", "x"]
    assert new.past_tokens == old.past_tokens + len("board 4[4]")
