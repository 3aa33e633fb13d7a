"""The conversation between a game and a player that writes text."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, final

from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game, State

_THINK_TAG = re.compile(r"</?think>")
_MAX_QUOTED_CHARS = 40


class ParseFailure(StrEnum):
    """Why a reply gave no move."""

    UNPARSABLE = "unparsable"
    """The reply names no action of the game, or more than one."""
    ILLEGAL = "illegal_move"
    """The reply names an action that is not legal now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The move in a reply, or why there is none. Exactly one of the two is set."""

    action: int | None
    """The legal action that was named."""
    failure: ParseFailure | None
    """Why there is no action."""
    detail: str
    """One line for people about the failure; empty when there is an action."""


@final
class TextProtocol(Generic[State]):
    """Writes a game's messages and reads the replies.

    The move of a reply is its last complete tag `[...]` outside `<think>` blocks, and nothing else
    is considered: a tag that is wrong is a failure, never a reason to look for another move.

    Example:
        protocol = TextProtocol(make_game("earl/TicTacToe-v0"))
        protocol.parse("<think>[1] or [5]?</think> I take [5].", (0, 0)).action   # 4
    """

    def __init__(self, game: Game[State]) -> None:
        self.game = game

    def system_message(self) -> str:
        """Return what a player is told once, before the first turn."""
        return self.game.rules()

    def turn_message(self, state: State, seat: int) -> str:
        """Return what `seat` is told when its turn comes."""
        return self.game.text(state, seat)

    def format_move(self, state: State, action: int) -> str:
        """Return the shortest reply that `parse` reads as this legal action."""
        return f"[{_label(self.game.move_name(state, action))}]"

    def parse(self, reply: str, state: State) -> ParsedReply:
        """Read the move in a reply, in time linear in its length.

        An unclosed `<think>` hides the rest of the reply; a `</think>` that nothing opened hides
        what precedes it, since some chat templates open the block in the prompt.

        Raises:
            Exception: Whatever the game's `legal`, or its `move_name` of a legal action, raises.
        """
        tag = _last_tag(_spoken(reply))
        if tag is None:
            return _failed(ParseFailure.UNPARSABLE, "no complete [move] in the reply")
        label, legal = tag.strip(), self.game.legal(state)
        named = [a for a in legal if _label(self.game.move_name(state, a)) == label]
        if len(named) == 1:
            return ParsedReply(action=named[0], failure=None, detail="")
        if named:
            return _failed(ParseFailure.UNPARSABLE, f"{_quote(tag)} names {len(named)} moves")
        if self._names_another_action(label, state, legal):
            return _failed(ParseFailure.ILLEGAL, f"{_quote(tag)} is not legal now")
        return _failed(ParseFailure.UNPARSABLE, f"{_quote(tag)} is no move of this game")

    def _names_another_action(self, label: str, state: State, legal: list[int]) -> bool:
        # A game need only name legal actions; one that raises for another has no such name.
        others = set(range(self.game.num_actions)).difference(legal)
        names = (attempt(self.game.move_name, state, action) for action in others)
        return any(not isinstance(name, Failure) and _label(name) == label for name in names)


def _spoken(reply: str) -> str:
    pieces: list[str] = []
    start, thinking = 0, False
    for tag in _THINK_TAG.finditer(reply):
        if tag.group() == "<think>":
            if not thinking:
                pieces.append(reply[start : tag.start()])
            thinking = True
        else:
            if not thinking:
                pieces.clear()
            start, thinking = tag.end(), False
    if not thinking:
        pieces.append(reply[start:])
    return "".join(pieces)


def _last_tag(text: str) -> str | None:
    start = text.rfind("[", 0, max(text.rfind("]"), 0))
    return None if start < 0 else text[start + 1 : text.find("]", start)]


def _label(name: str) -> str:
    name = name.strip()
    return name[1:-1].strip() if name[:1] == "[" and name[-1:] == "]" else name


def _quote(tag: str) -> str:
    shown = tag if len(tag) <= _MAX_QUOTED_CHARS else tag[:_MAX_QUOTED_CHARS] + "..."
    return repr(f"[{shown}]")


def _failed(failure: ParseFailure, detail: str) -> ParsedReply:
    return ParsedReply(action=None, failure=failure, detail=detail)
