r"""Answers to mathematical questions, verified against the right ones."""

import re
from itertools import accumulate

from earl_trainer.rewards.functions.expressions import (
    UnreadableError,
    agree,
    evaluate,
    in_one_notation,
    undecorated,
    without_thousands,
)
from earl_trainer.rewards.functions.questions import answers
from earl_trainer.rewards.functions.units import split_unit
from earl_trainer.rewards.transcript import Transcript

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_SAID = re.compile(r"answer(?: is|:|\s*=)\s*(.+?)(?:\.\s|\.?$)", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?")
_BOXED = "\\boxed{"
# Longer answers are compared as text: reading them by value takes its time.
_MAX_CHARS = 400


def mathematics(transcript: Transcript) -> float:
    """Return the share of the games whose last reply gives the right answer.

    Raises:
        ValueError: If the game has no `solution(state)` that is a string.
    """
    right: list[bool] = []
    for reply, solution in answers(transcript):
        if not isinstance(solution, str):
            raise ValueError(f"the solution must be a string, got {solution!r}")  # noqa: TRY004
        given = final_answer(reply)
        right.append(given is not None and is_equal(given, solution))
    return sum(right) / len(right)


def final_answer(reply: str) -> str | None:
    r"""Find the answer in a reply: its last `\boxed{}`, else tag, else "answer is", else number."""
    boxed = _last_boxed(reply)
    if boxed is not None:
        return boxed
    for pattern in (_TAGGED, _SAID):
        if found := pattern.findall(reply):
            return found[-1]
    numbers = _NUMBER.findall(reply)
    return numbers[-1] if numbers else None


def is_equal(given: str, truth: str) -> bool:
    """Return whether two answers are the same: as text in one notation, or as values.

    Several are compared one by one, in order, and need the same brackets around them: (0, 1] is
    another interval than (0, 1), and a list has none. Of a set the order does not count; a set of
    one is its element. A percentage is a hundredth, and a right answer that is one may also be
    given without its sign, as the MATH data set leaves it out. So may a unit, on either side; two
    units must be the same, as none is converted.
    """
    if not given.strip():
        return False
    one, other = undecorated(given), undecorated(truth)
    if max(len(one), len(other)) > _MAX_CHARS:
        return _plain(one) == _plain(other)
    return _is_same(one, other)


def _is_same(given: str, truth: str) -> bool:
    brackets, parts = _parts(given)
    other_brackets, others = _parts(truth)
    if brackets != other_brackets:
        return False
    if brackets == "{}":
        return all(any(_is_same(part, other) for other in others) for part in parts) and all(
            any(_is_same(part, other) for part in parts) for other in others
        )
    if len(parts) != len(others):
        return False
    if len(parts) > 1:
        return all(map(_is_same, parts, others))
    value, unit = split_unit(parts[0])
    right_value, right_unit = split_unit(others[0])
    if unit and right_unit and unit != right_unit:
        return False
    return _is_same_value(in_one_notation(value), in_one_notation(right_value))


def _is_same_value(given: str, truth: str) -> bool:
    if given == truth:
        return True
    bare = truth.removesuffix("%")
    candidates = [_percentage(truth)] if bare == truth or given.endswith("%") else []
    candidates = candidates or [_percentage(truth), bare]
    try:
        value = evaluate(_percentage(given))
        return any(agree(value, evaluate(candidate)) for candidate in candidates)
    except UnreadableError:
        return _plain(given) == _plain(truth)


def _percentage(text: str) -> str:
    return f"({text[:-1]})/100" if text.endswith("%") else text


def _plain(text: str) -> str:
    return re.sub(r"\s+", "", text).lower()


def _parts(text: str) -> tuple[str, list[str]]:
    """Return the brackets around several parts, empty where there are none, and the parts.

    In brackets every comma separates: (100,200) is a pair.
    """
    if text[:1] in {"(", "[", "{"} and _first_closed(text) == len(text) - 1:
        inner = _split(text[1:-1])
        if len(inner) > 1:
            return text[0] + text[-1], inner
    return "", _split(without_thousands(text))


def _first_closed(text: str) -> int:
    """Return where the bracket that a text begins with is closed, by whichever; -1 for nowhere."""
    depths = accumulate((character in "([{") - (character in ")]}") for character in text)
    return next((place for place, depth in enumerate(depths) if depth == 0), -1)


def _split(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def _last_boxed(reply: str) -> str | None:
    start = reply.rfind(_BOXED)
    if start < 0:
        return None
    depth, begin = 1, start + len(_BOXED)
    for place in range(begin, len(reply)):
        depth += (reply[place] == "{") - (reply[place] == "}")
        if not depth:
            return reply[begin:place]
    return None
