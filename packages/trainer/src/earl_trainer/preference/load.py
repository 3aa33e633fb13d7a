"""Data sets as lines of tokens."""

from pathlib import Path

from earl_trainer.preference.dataset import (
    Demonstration,
    Pair,
    read_demonstrations,
    read_judged,
    read_pairs,
)
from earl_trainer.preference.lines import Line, encode_turns, line_of
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.types import Turn


def load_demonstrations(path: Path, chat: ChatFormat, *, max_tokens: int) -> list[list[Turn]]:
    """Read the replies of every demonstration.

    Args:
        path: A file or a folder.
        chat: Renders conversations.
        max_tokens: Of one context.

    Raises:
        ValueError: Naming the line that is wrong, or too long.
    """
    return [_turns(shown, chat, max_tokens) for shown in read_demonstrations(path)]


def load_pairs(path: Path, chat: ChatFormat, *, max_tokens: int) -> list[tuple[Line, Line]]:
    """Read pairs: (chosen, rejected). Arguments and errors are those of `load_demonstrations`."""
    return [_pair(pair, chat, max_tokens) for pair in read_pairs(path)]


def load_judged(path: Path, chat: ChatFormat, *, max_tokens: int) -> list[tuple[Line, bool]]:
    """Read answers and whether they are good. The rest as in `load_demonstrations`."""
    return [
        (_line(judged.answer, chat, max_tokens), judged.desirable) for judged in read_judged(path)
    ]


def _pair(pair: Pair, chat: ChatFormat, max_tokens: int) -> tuple[Line, Line]:
    chosen, rejected = (_line(each, chat, max_tokens) for each in (pair.chosen, pair.rejected))
    if chosen == rejected:
        raise ValueError(
            f"{pair.chosen.origin}: both answers are the same {len(chosen.answer_ids)} tokens"
        )
    return chosen, rejected


def _line(shown: Demonstration, chat: ChatFormat, max_tokens: int) -> Line:
    return line_of(_turns(shown, chat, max_tokens))


def _turns(shown: Demonstration, chat: ChatFormat, max_tokens: int) -> list[Turn]:
    turns = encode_turns(chat, shown)
    num_tokens = len(turns[-1].prompt_ids) + len(turns[-1].reply_ids)
    if num_tokens > max_tokens:
        raise ValueError(
            f"{shown.origin}: a context must fit rollout.max_context_tokens = {max_tokens}, it has "
            f"{num_tokens} tokens"
        )
    return turns
