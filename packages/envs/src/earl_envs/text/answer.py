"""Finding the one answer of a reply, whatever the game."""

import re
from enum import Enum
from typing import final

_REASONING_TAG = re.compile(r"</?(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSING_TAGS = {
    f"<{name}>": f"</{name}>" for name in ("think", "thinking", "thought", "reasoning")
}
_LONGEST_TAG = max(map(len, _CLOSING_TAGS))
_CUT = "\x00"
_ANSWER_TAG = re.compile(r"</?(answer|action)>")
_BRACE = re.compile(r"\\boxed\{|[{}]")
_NAME = re.compile(r"\[([^\[\]]*)\]|\\boxed\{([^{}]*)\}")
_LATEX_COMMAND = re.compile(r"\\[A-Za-z]+")


@final
class AnswerFault(Enum):
    """Why a reply has no answer; the value says so in words."""

    MISSING = "no complete [move] in the reply"
    UNMATCHED = "the last answer tag is not closed, or not by its own kind"
    AMBIGUOUS = "the answer names more than one move"


def find_answer(reply: str, *, cut: bool = False) -> str | AnswerFault:
    r"""Return the name of a move as the reply writes it, in time linear in the reply's length.

    1. Reasoning is taken out: `<think>`, `<thinking>`, `<thought>` and `<reasoning>` blocks, in
       upper or lower case but the same in both tags, and `[THINK]...[/THINK]`. An unclosed one
       hides the rest of the reply; a closing tag that nothing opened hides what precedes it, since
       some chat templates open the block in the prompt.
    2. Structured answers are `<answer>...</answer>`, `<action>...</action>` (lower case) and
       `\boxed{...}`. The one that closes last is final, wrong or right: nothing else of the reply
       is considered. Its content is a name, bare or as `[name]`. Two different names are none, and
       so is a digit beside a `[name]`, which could be another move; other words may stand there. A
       closing tag that closes no tag of its kind leaves the reply without an answer, and so does an
       opening one where no answer closes at all; one that opens after the last closing tag is
       ignored.
    3. A reply without any of these answers with its last complete `[name]`.

    Args:
        reply: What the player wrote.
        cut: Whether the reply was cut short. Then a `[name]` answers only at its very end, as
            anything later shows that more was to come.
    """
    if cut:
        reply += _CUT
    if reply.startswith("<think>"):
        # Most replies of models that reason: one block in front, which this takes out at once.
        end = reply.find("<", len("<think>"))
        if reply.startswith("</think>", end):
            reply = reply[end + len("</think>") :]
    bracket = reply.find("[")  # one character is found faster than six
    if bracket >= 0 and reply.find("THINK]", bracket) >= 0:
        reply = reply.replace("[THINK]", "<think>").replace("[/THINK]", "</think>")
    spoken, (end, content) = (reply, _NO_ANSWER)
    if "<" in reply and ">" in reply:
        spoken, (end, content) = _usual_answer(reply) or _tagged_answer(reply)
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


def bare_name(name: str) -> str:
    """Return a move's name without brackets and outer blanks: names are compared so."""
    name = name.strip()
    return name[1:-1].strip() if name[:1] == "[" and name[-1:] == "]" else name


# An answer is (where it ends, its content): content None for a closing tag without its opening one,
# end 0 where nothing closes, -1 where there is no such answer at all.
_Answer = tuple[int, str | None]
_NO_ANSWER: _Answer = (-1, None)


def _usual_answer(reply: str) -> tuple[str, _Answer] | None:
    """Take out the reasoning and find the tagged answer of a reply of the usual form.

    That is at most one block of reasoning, before any other tag, and then one pair of answer tags
    or no `<` at all. Searches for one character are faster than those for a tag.
    """
    start = reply.find("<")
    opening_end = reply.find(">", start, start + _LONGEST_TAG) + 1
    closing = _CLOSING_TAGS.get(reply[start:opening_end])
    spoken = reply
    if closing is not None:
        end = reply.find("<", opening_end)
        if not reply.startswith(closing, max(end, 0)):
            end = reply.find(closing, opening_end)
        if end < 0:
            return None
        spoken = reply[:start] + reply[end + len(closing) :]
        start = spoken.find("<")
        if start < 0:
            return spoken, _NO_ANSWER
    end = spoken.find("<", start + 1)
    if not spoken.startswith("<answer>", start) or not spoken.startswith("</answer>", end):
        return None
    if end < 0 or spoken.find("<", end + 1) >= 0:
        return None
    return spoken, (end + len("</answer>"), spoken[start + len("<answer>") : end])


def _tagged_answer(reply: str) -> tuple[str, _Answer]:
    spoken = _outside_blocks(reply)
    return spoken, _last_tagged(spoken)


def _outside_blocks(reply: str) -> str:
    pieces: list[str] = []
    opened, end = "", 0
    for match in _REASONING_TAG.finditer(reply):
        tag = match[0]
        if opened:
            if tag != opened:
                continue
            opened = ""
        elif tag[1] == "/":
            pieces = []
        else:
            pieces.append(reply[end : match.start()])
            opened = f"</{tag[1:]}"
        end = match.end()
    if not end:
        return reply
    if not opened:
        pieces.append(reply[end:])
    return "".join(pieces)


def _last_tagged(text: str) -> _Answer:
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
