"""What a player thinks before it speaks, taken out of its replies."""

import re

_KINDS = ("think", "thinking", "thought", "reasoning")
_TAG = re.compile(f"</?(?:{'|'.join(_KINDS)})>", re.IGNORECASE)
_CLOSINGS = {f"<{kind}>": f"</{kind}>" for kind in (*_KINDS, "THINK")}
_LONGEST = max(map(len, _CLOSINGS))


def without_reasoning(reply: str) -> str:
    """Return a reply without its blocks of reasoning, in time linear in its length.

    Blocks are `<think>`, `<thinking>`, `<thought>` and `<reasoning>`, in upper or lower case but
    the same in both tags, and `[THINK]...[/THINK]`. An unclosed one hides the rest of the reply; a
    closing tag that nothing opened hides what precedes it, since some chat templates open the block
    in the prompt.
    """
    bracket = reply.find("[")  # one character is found faster than six
    if bracket >= 0 and reply.find("THINK]", bracket) >= 0:
        reply = _in_angles(reply)
    pieces: list[str] = []
    opened, end = "", 0
    for match in _TAG.finditer(reply):
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


def after_reasoning(reply: str) -> str:
    """Return a reply without the reasoning in front of it, where that is easily seen.

    For `without_reasoning` the two are the same.
    """
    tag = reply.find("<")
    if tag == 0:
        closing = _CLOSINGS.get(reply[: reply.find(">", 0, _LONGEST) + 1])
        if closing is None:
            return reply
        if closing == "</THINK>":  # `[/THINK]` closes it as well
            reply = _in_angles(reply)
        end = reply.find("<", 1)  # one character is found faster than eight
        if not reply.startswith(closing, end):
            end = reply.find(closing, 1)
        return reply[end + len(closing) :] if end >= 0 else reply
    if reply.startswith("</think>", tag) and reply.find("[THINK]", 0, tag) < 0:
        return reply[tag + len("</think>") :]
    return after_reasoning(_in_angles(reply)) if reply.startswith("[THINK]") else reply


def _in_angles(reply: str) -> str:
    return reply.replace("[THINK]", "<THINK>").replace("[/THINK]", "</THINK>")
