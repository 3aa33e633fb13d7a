"""History policies: which exchanges come back, and in whose words."""

import pytest
from earl_envs.text.history import Exchange, Message, make_history

PAST = [
    Exchange(message=f"board {n}", reply=f"[{n}]", message_tokens=1, reply_tokens=1)
    for n in range(5)
]


def _chat(*contents: str) -> list[Message]:
    roles = ("user", "assistant")
    return [Message(role=roles[n % 2], content=content) for n, content in enumerate(contents)]


@pytest.mark.parametrize(
    ("spec", "numbers"),
    [
        ("full", range(5)),
        ("last-2", (3, 4)),
        ("last-5", range(5)),
        ("last-9", range(5)),
        ("board-only", ()),
    ],
)
def test_a_prompt_holds_the_exchanges_that_the_policy_keeps(spec, numbers):
    kept = [text for n in numbers for text in (f"board {n}", f"[{n}]")]
    rules = Message(role="system", content="rules")
    chat = make_history(spec).messages("rules", PAST, "now")
    assert chat == [rules, *_chat(*kept, "now")]


@pytest.mark.parametrize("spec", ["full", "last-3", "board-only"])
def test_first_turn_is_the_same_under_every_policy(spec):
    assert make_history(spec).messages("", [], "now") == _chat("now")


@pytest.mark.parametrize("spec", ["ful", "last-0", "last-", "last--1", "last-3 ", "last-٣", ""])
def test_unknown_policy_is_refused_with_the_valid_ones(spec):
    with pytest.raises(ValueError, match=r"unknown history policy .*board-only, full, last-3"):
        make_history(spec)
