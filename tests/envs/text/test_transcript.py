"""One player's past: what it is sent, and how long that is."""

import pytest
from earl_envs.text.history import make_history
from earl_envs.text.transcript import Transcript


def _transcript(history: str) -> Transcript:
    blank = Transcript(
        history=make_history(history), count_tokens=len, system="rules", system_tokens=5
    )
    for n in range(4):
        blank = blank.add(f"board {n}", f"[{n}]!")
    return blank


@pytest.mark.parametrize("history", ["full", "last-1", "last-3", "board-only"])
def test_counted_tokens_are_those_of_the_messages(history):
    transcript = _transcript(history)
    chat = transcript.messages("now")
    assert transcript.prompt_tokens("now") == sum(len(message.content) for message in chat)


def test_texts_are_counted_once():
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    transcript = Transcript(
        history=make_history("full"), count_tokens=count, system="rules", system_tokens=5
    ).add("board", "[1]")
    transcript.prompt_tokens("now")
    assert counted == ["board", "[1]", "now"]


def test_adding_leaves_the_old_value_as_it_was():
    old = _transcript("full")
    new = old.add("board 4", "[4]")
    assert [message.content for message in old.messages("x")][-3:] == ["board 3", "[3]!", "x"]
    assert [message.content for message in new.messages("x")][-3:] == ["board 4", "[4]", "x"]
