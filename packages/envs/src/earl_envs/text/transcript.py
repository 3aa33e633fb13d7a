"""What one player was told and said, and what it is sent next."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import final

from earl_envs.text.history import Exchange, History, Message


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """One player's side of an episode; nobody else's words are in it.

    It is a value: `add` returns a new one. Every text is counted once, when it is added.
    """

    history: History
    """What of the past is sent again."""
    count_tokens: Callable[[str], int]
    """Length of a text."""
    system: str
    """The rules."""
    system_tokens: int
    """Length of the rules."""
    exchanges: Sequence[Exchange] = ()
    """The player's turns so far."""

    def messages(self, message: str) -> list[Message]:
        """Return the prompt that ends with `message`."""
        return self.history.messages(self.system, self.exchanges, message)

    @property
    def past_tokens(self) -> int:
        """Length of what every prompt now begins with: the rules and the past that is kept."""
        kept = self.history.kept(self.exchanges)
        past = sum(exchange.message_tokens + exchange.reply_tokens for exchange in kept)
        return self.system_tokens + past

    def prompt_tokens(self, message: str) -> int:
        """Return the length of that prompt, without a chat template's own tokens."""
        return self.past_tokens + self.count_tokens(message)

    def add(self, message: str, reply: str) -> "Transcript":
        """Append what the player was told and what it replied."""
        exchange = Exchange(
            message=message,
            reply=reply,
            message_tokens=self.count_tokens(message),
            reply_tokens=self.count_tokens(reply),
        )
        return replace(self, exchanges=(*self.exchanges, exchange))
