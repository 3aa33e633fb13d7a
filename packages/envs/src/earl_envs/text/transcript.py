"""What one player was told and said, and what it is sent next."""

from collections.abc import Callable, Iterable
from typing import final

from earl_envs.text.history import Exchange, History, Message


@final
class Transcript:
    """One player's side of an episode; nobody else's words are in it.

    It grows with `add`, which counts every text once and takes no longer late than early.
    """

    def __init__(
        self,
        *,
        history: History,
        count_tokens: Callable[[str], int],
        system: str,
        system_tokens: int,
        exchanges: Iterable[Exchange] = (),
    ) -> None:
        """Begin with the rules.

        Args:
            history: What of the past is sent again.
            count_tokens: Length of a text.
            system: The rules.
            system_tokens: Length of the rules.
            exchanges: The player's turns so far.
        """
        self._history = history
        self._count_tokens = count_tokens
        self._system = system
        self._system_tokens = system_tokens
        self._exchanges = [*exchanges]
        self._kept_tokens = sum(map(_num_tokens, history.kept(self._exchanges)))

    @property
    def past_tokens(self) -> int:
        """Length of what every prompt now begins with: the rules and the past that is kept."""
        return self._system_tokens + self._kept_tokens

    def messages(self, message: str) -> list[Message]:
        """Return the prompt that ends with `message`."""
        return self._history.messages(self._system, self._exchanges, message)

    def add(self, message: str, reply: str) -> Exchange:
        """Append what the player was told and what it replied."""
        exchange = Exchange(
            message=message,
            reply=reply,
            message_tokens=self._count_tokens(message),
            reply_tokens=self._count_tokens(reply),
        )
        self._exchanges.append(exchange)
        self._kept_tokens += _num_tokens(exchange)
        num_kept = self._history.num_exchanges
        if num_kept is not None and num_kept < len(self._exchanges):
            self._kept_tokens -= _num_tokens(self._exchanges[-1 - num_kept])
        return exchange

    def copy(self) -> "Transcript":
        """Return one that grows by itself."""
        return Transcript(
            history=self._history,
            count_tokens=self._count_tokens,
            system=self._system,
            system_tokens=self._system_tokens,
            exchanges=self._exchanges,
        )


def _num_tokens(exchange: Exchange) -> int:
    return exchange.message_tokens + exchange.reply_tokens
