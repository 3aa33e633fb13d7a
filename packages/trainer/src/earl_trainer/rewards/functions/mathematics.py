r"""Answers to mathematical questions, verified against the right ones."""

import re

from earl_trainer.rewards.functions.expressions import UnreadableError, agree, evaluate, normalise
from earl_trainer.rewards.functions.questions import answers
from earl_trainer.rewards.transcript import Transcript

_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_SAID = re.compile(r"answer(?: is|:|\s*=)\s*(.+?)(?:\.\s|\.?$)", re.IGNORECASE | re.MULTILINE)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:/\d+)?%?")
_BOXED = "\\boxed{"


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
    """Return whether two answers are the same: as text once normalised, or as values.

    Several, as (1, 2), are compared one by one, in order. A percentage is a hundredth, and a right
    answer that is one may also be given without its sign, as the MATH data set leaves it out.
    """
    if not given.strip():
        return False
    one, other = normalise(given), normalise(truth)
    if one == other:
        return True
    parts, others = _parts(one), _parts(other)
    if len(parts) != len(others):
        return False
    return all(map(_is_same, parts, others))


def _is_same(given: str, truth: str) -> bool:
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


def _parts(text: str) -> list[str]:
    """Split at commas that stand in no inner bracket; one pair around all of it is dropped."""
    if text[:1] in {"(", "["} and text[-1:] in {")", "]"} and "," in text:
        text = text[1:-1]
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
