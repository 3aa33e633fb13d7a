"""Finding the one answer of a reply, whatever the game."""

import re
from enum import Enum
from typing import final

_REASONING_TAG = re.compile(r"<(/?)(think|thinking|thought|reasoning)>")
_ANSWER_TAG = re.compile(r"</?(answer|action)>")
_BRACE = re.compile(r"\\boxed\{|[{}]")
_NAME = re.compile(r"\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}")


@final
class AnswerFault(Enum):
    """Why a reply has no answer; the value says so in words."""

    MISSING = "no complete [move] in the reply"
    UNMATCHED = "the last answer tag is not closed, or not by its own kind"
    AMBIGUOUS = "the answer names more than one move"


def find_answer(reply: str) -> str | AnswerFault:
    r"""Return the name of a move as the reply writes it, in time linear in the reply's length.

    1. Reasoning is taken out: `<think>`, `<thinking>`, `<thought>` and `<reasoning>` blocks. An
       unclosed one hides the rest of the reply; a closing tag that nothing opened hides what
       precedes it, since some chat templates open the block in the prompt.
    2. Structured answers are `<answer>...</answer>`, `<action>...</action>` and `\boxed{...}`. The
       one that closes last is final, wrong or right: nothing else of the reply is considered. Its
       content is a name, bare or as `[name]`; two different names are none. A tag that closes no
       tag of its kind, or is never closed, leaves the reply without an answer.
    3. A reply without any of these answers with its last complete `[name]`.

    Tags are lower case, as models are taught them.
    """
    spoken = _without_reasoning(reply) if "<" in reply else reply
    end, content = _last_tagged(spoken) if "<" in spoken else _NO_ANSWER
    if "\\" in spoken:
        boxed = _last_boxed(spoken)
        end, content = boxed if boxed[0] > end else (end, content)
    if end >= 0:
        return AnswerFault.UNMATCHED if content is None else _only_name(content)
    start = spoken.rfind("[", 0, max(spoken.rfind("]"), 0))
    return AnswerFault.MISSING if start < 0 else spoken[start + 1 : spoken.find("]", start)].strip()


def bare_name(name: str) -> str:
    """Return a move's name without brackets and outer blanks: names are compared so."""
    name = name.strip()
    return name[1:-1].strip() if name[:1] == "[" and name[-1:] == "]" else name


def _without_reasoning(reply: str) -> str:
    # Mostly there is one block and it comes first: then the rest is all that is spoken.
    if reply.startswith("<think>"):
        block, closing, rest = reply.rpartition("</think>")
        if closing and block.rfind("<") == 0:
            return _outside_blocks(rest) if "<" in rest else rest
    return _outside_blocks(reply)


def _outside_blocks(reply: str) -> str:
    if not _REASONING_TAG.search(reply):
        return reply
    first, *rest = _REASONING_TAG.split(reply)  # a text, then a slash, a name and a text per tag
    pieces, opened = [first], ""
    for slash, name, text in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if opened:
            if slash and name == opened:
                opened = ""
                pieces.append(text)
        elif slash:
            pieces = [text]
        else:
            opened = name
    return "".join(pieces)


# An answer is (where it ends, its content): content None for a closing tag without its opening one,
# end 0 where nothing closes, -1 where there is no such answer at all.
_Answer = tuple[int, str | None]
_NO_ANSWER: _Answer = (-1, None)


def _last_tagged(text: str) -> _Answer:
    end = text.rfind("</")
    start = text.rfind("<", 0, max(end, 0))
    # Mostly the last tag closes the one before it, and then there is no need to look at the rest.
    for opening, closing in (("<answer>", "</answer>"), ("<action>", "</action>")):
        if text.startswith(closing, end) and text.startswith(opening, start):
            return (end + len(closing), text[start + len(opening) : end])
    return _last_tagged_of_many(text)


def _last_tagged_of_many(text: str) -> _Answer:
    previous = opening = closing = None
    for tag in _ANSWER_TAG.finditer(text):
        if text[tag.start() + 1] == "/":
            opening, closing = previous, tag
        previous = tag
    if closing is None:
        return _NO_ANSWER if previous is None else (0, None)
    if opening is None or f"<{opening[1]}>" != opening[0] or opening[1] != closing[1]:
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
    names = _NAME.findall(content)
    if not names:
        return content.strip()
    if len(names) == 1:
        return bare_name(names[0][0] or names[0][1])
    distinct = {bare_name(in_brackets or in_box) for in_brackets, in_box in names}
    return AnswerFault.AMBIGUOUS if len(distinct) > 1 else distinct.pop()
