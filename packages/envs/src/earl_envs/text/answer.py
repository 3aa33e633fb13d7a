"""Finding the one answer of a reply, whatever the game."""

import re
from enum import Enum
from functools import lru_cache
from typing import final

from earl_envs.text.reasoning import after_reasoning, without_reasoning

_CUT = "\x00"
_ANSWER_TAG = re.compile(r"</?(answer|action)>", re.IGNORECASE)
_BRACE = re.compile(r"\\boxed\{|[{}]")
_NAME = re.compile(r"\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}")
_LATEX_COMMAND = re.compile(r"\\[A-Za-z]+")
_SHORT_CHARS = 64


@final
class AnswerFault(Enum):
    """Why a reply has no answer; the value says so in words."""

    MISSING = "no complete [move] in the reply"
    UNMATCHED = "the last answer tag is not closed, or not by its own kind"
    AMBIGUOUS = "the answer names more than one move"


def find_answer(reply: str, *, cut: bool = False) -> str | AnswerFault:
    r"""Return the name of a move as the reply writes it, in time linear in the reply's length.

    1. Reasoning is taken out, as `without_reasoning` describes.
    2. Structured answers are `<answer>...</answer>`, `<action>...</action>` (in upper or lower
       case) and `\boxed{...}`. The one that closes last is final, wrong or right: nothing else of
       the reply is considered. Its content is a name, bare or as `[name]`. Two different names are
       none, and so is a digit beside a `[name]`, which could be another move; other words may stand
       there. A closing tag that closes no tag of its kind leaves the reply without an answer, and
       so does an opening one where no answer closes at all; one that opens after the last closing
       tag is ignored.
    3. A reply without any of these answers with its last complete `[name]`.

    Args:
        reply: What the player wrote.
        cut: Whether the reply was cut short. Then a `[name]` answers only at its very end, as
            anything later shows that more was to come.
    """
    if cut:
        return _answer(reply + _CUT, cut=True)
    told = after_reasoning(reply)
    if len(told) > _SHORT_CHARS:
        told = _from_first_mark(told)
    return _short_answer(told) if len(told) <= _SHORT_CHARS else _answer(told, cut=False)


def bare_name(name: str) -> str:
    """Return a move's name without brackets and outer blanks: names are compared so."""
    name = name.strip()
    return name[1:-1].strip() if name[:1] == "[" and name[-1:] == "]" else name


# An answer is (where it ends, its content): content None for a closing tag without its opening one,
# end 0 where nothing closes, -1 where there is no such answer at all.
_Answer = tuple[int, str | None]
_NO_ANSWER: _Answer = (-1, None)


def _from_first_mark(told: str) -> str:
    """Drop what stands before the first `[`, `<` or backslash: no answer depends on it.

    Nor does one depend on a `[name]` before the first tag if that is `<answer>`.
    """
    start = told.find("[")
    if "<" in told:
        tag = told.find("<")
        if not 0 <= start < tag or (
            told.startswith("<answer>", tag) and told.find("[THINK]", start, tag) < 0
        ):
            start = tag
    if "\\" in told:
        command = told.find("\\")
        start = command if start < 0 else min(start, command)
    return told[start:] if start >= 0 else ""


@lru_cache(maxsize=1024)
def _short_answer(told: str) -> str | AnswerFault:
    # Most replies end in one of few ways.
    return _answer(told, cut=False)


def _answer(told: str, *, cut: bool) -> str | AnswerFault:
    spoken, (end, content) = told, _NO_ANSWER
    if "<" in told or "THINK]" in told:
        spoken = without_reasoning(told)
        end, content = _last_tagged(spoken)
    if "\\" in spoken:
        boxed = _last_boxed(spoken)
        end, content = boxed if boxed[0] > end else (end, content)
    if end >= 0:
        return AnswerFault.UNMATCHED if content is None else _only_name(content)
    start = spoken.rfind("[", 0, max(spoken.rfind("]"), 0))
    if start < 0:
        return AnswerFault.MISSING
    end = spoken.find("]", start)
    if cut and spoken[end + 1 :].strip() != _CUT:
        return AnswerFault.MISSING
    return spoken[start + 1 : end].strip()


def _last_tagged(text: str) -> _Answer:
    previous = opening = closing = None
    for tag in _ANSWER_TAG.finditer(text):
        if text[tag.start() + 1] == "/":
            opening, closing = previous, tag
        previous = tag
    if closing is None:
        return _NO_ANSWER if previous is None else (0, None)
    if (
        opening is None
        or f"<{opening[1]}>" != opening[0]
        or opening[1].lower() != closing[1].lower()
    ):
        return (closing.end(), None)
    return (closing.end(), text[opening.end() : closing.start()])


def _last_boxed(text: str) -> _Answer:
    first = text.find("\\boxed{")
    if first < 0:
        return _NO_ANSWER
    answer: _Answer = (0, None)
    opened: list[tuple[int, bool]] = []  # where the content of every open brace starts; boxed?
    for brace in _BRACE.finditer(text, first):
        if brace[0] != "}":
            opened.append((brace.end(), brace[0] != "{"))
        elif opened:
            start, boxed = opened.pop()
            if boxed:
                answer = (brace.end(), text[start : brace.start()])
    return answer


def _only_name(content: str) -> str | AnswerFault:
    content = content.strip()
    if "[" not in content and "\\" not in content:
        return content
    inner = content[1:-1]
    if content[0] == "[" and content[-1] == "]" and inner.isalnum():
        return inner
    names = {bare_name(bracketed or boxed) for bracketed, boxed in _NAME.findall(content)}
    if not names:
        return content
    beside = _LATEX_COMMAND.sub("", _NAME.sub("", content))
    if len(names) > 1 or any(map(str.isdigit, beside)):
        return AnswerFault.AMBIGUOUS
    return names.pop()
