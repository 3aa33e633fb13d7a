"""The conversation between a game and a player that writes text."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, final

from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game, State
from earl_envs.text.answer import AnswerFault, bare_name, find_answer

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

    A reply has one answer, found as `find_answer` describes: a structured answer where there is
    one, else the last complete tag `[...]`, always outside reasoning blocks. Nothing else is
    considered: an answer that is wrong is a failure, never a reason to look for another move.

    Example:
        protocol = TextProtocol(make_game("earl/TicTacToe-v0"))
        protocol.parse("<think>[1] or [5]?</think> I take [5].", (0, 0)).action   # 4
        protocol.parse("[1] <answer>5</answer>", (0, 0)).action                   # 4
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
        return f"[{bare_name(self.game.move_name(state, action))}]"

    def parse(self, reply: str, state: State, *, cut: bool = False) -> ParsedReply:
        """Read the move in a reply, in time linear in its length.

        Args:
            reply: The player's words.
            state: The position they are about.
            cut: Whether they were cut at a token limit; see `find_answer`.

        Raises:
            ValueError: If the reply is no string.
            Exception: Whatever the game's `legal`, or its `move_name` of a legal action, raises.
        """
        name = find_answer(check_reply(reply), cut=cut)
        if isinstance(name, AnswerFault):
            return _failed(ParseFailure.UNPARSABLE, name.value)
        legal = self.game.legal(state)
        named = [a for a in legal if bare_name(self.game.move_name(state, a)) == name]
        if len(named) == 1:
            return ParsedReply(action=named[0], failure=None, detail="")
        if named:
            return _failed(ParseFailure.UNPARSABLE, f"{_quote(name)} names {len(named)} moves")
        if self._names_another_action(name, state, legal):
            return _failed(ParseFailure.ILLEGAL, f"{_quote(name)} is not legal now")
        return _failed(ParseFailure.UNPARSABLE, f"{_quote(name)} is no move of this game")

    def _names_another_action(self, name: str, state: State, legal: list[int]) -> bool:
        # A game need only name legal actions; one that raises for another has no such name.
        others = set(range(self.game.num_actions)).difference(legal)
        names = (attempt(self.game.move_name, state, action) for action in others)
        return any(not isinstance(other, Failure) and bare_name(other) == name for other in names)


def check_reply(reply: object) -> str:
    """Return what a player wrote.

    Raises:
        ValueError: If it is no string.
    """
    if not isinstance(reply, str):
        raise ValueError(f"a reply must be a string, got {reply!r}")  # noqa: TRY004
    return reply


def _quote(name: str) -> str:
    shown = name if len(name) <= _MAX_QUOTED_CHARS else name[:_MAX_QUOTED_CHARS] + "..."
    return repr(f"[{shown}]")


def _failed(failure: ParseFailure, detail: str) -> ParsedReply:
    return ParsedReply(action=None, failure=failure, detail=detail)
