"""What of the past a player is sent again with every turn."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, final

from earl_envs.suggest import suggest


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    """Who says it: the rules, the game, or the player."""
    content: str
    """What is said."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A turn that is over: what a player was told and what it replied."""

    message: str
    """What the game told the player."""
    reply: str
    """The player's own words, as it wrote them."""
    message_tokens: int
    """Length of the message."""
    reply_tokens: int
    """Length of the reply."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A history policy: how many of a player's latest exchanges stay in its prompt.

    With n exchanges of m tokens behind it a prompt has about (n + 1) * m tokens under `full`, so a
    game of T turns costs m * T * (T + 1) / 2 in all; at most (k + 1) * m and (k + 1) * m * T under
    `last-k`; m and m * T under `board-only`. `measure_growth` measures it for a game.
    """

    num_exchanges: int | None
    """None keeps all."""

    def kept(self, exchanges: Sequence[Exchange]) -> Sequence[Exchange]:
        """Return the exchanges that the next prompt repeats."""
        if self.num_exchanges is None:
            return exchanges
        return exchanges[max(0, len(exchanges) - self.num_exchanges) :]

    def messages(self, system: str, exchanges: Sequence[Exchange], message: str) -> list[Message]:
        """Write a prompt: the rules, what is kept of one player's past, and its newest message.

        Args:
            system: The rules; empty for none.
            exchanges: That player's own exchanges so far. Nobody else's words belong in a prompt.
            message: What the player is told now.
        """
        chat = [Message(role="system", content=system)] if system else []
        for exchange in self.kept(exchanges):
            chat.append(Message(role="user", content=exchange.message))
            chat.append(Message(role="assistant", content=exchange.reply))
        return [*chat, Message(role="user", content=message)]


def make_history(spec: str) -> History:
    """Return a history policy by name.

    Args:
        spec: `full`; `last-k`, such as `last-3`, for the k latest exchanges; or `board-only`, for
            none of them.

    Raises:
        ValueError: If there is no such policy; the message names the nearest one.
    """
    spec = str(spec)  # whatever a caller passes: it is refused as unknown
    if spec == "full":
        return History(num_exchanges=None)
    if spec == "board-only":
        return History(num_exchanges=0)
    if re.fullmatch(r"last-[1-9][0-9]{0,8}", spec, re.ASCII):
        return History(num_exchanges=int(spec.removeprefix("last-")))
    raise ValueError(suggest(spec, ("full", "last-3", "board-only"), what="history policy"))
