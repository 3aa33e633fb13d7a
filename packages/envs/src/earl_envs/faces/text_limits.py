"""What an agent may spend on an episode of words."""

import math
from dataclasses import dataclass
from typing import final

from earl_envs.checks import whole_number


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """Limits at which an episode is cut, which is neither won nor lost; None is no limit."""

    turns: int | None = None
    """Turns of an episode, all seats together; then it ends as `move_limit`."""
    reply_tokens: int | None = None
    """Tokens of a reply. One of so many or more counts as cut short: without a complete answer it
    ends the episode as `turn_token_limit`."""
    context_tokens: int | None = None
    """Tokens of a prompt and the reply to it. A prompt that leaves no room for a reply ends the
    episode as `context_limit`."""

    def __post_init__(self) -> None:
        for name in ("turns", "reply_tokens", "context_tokens"):
            value = getattr(self, name)
            if value is not None:
                whole_number(value, name, least=1)

    def room_tokens(self, prompt_tokens: int) -> float | int:
        """Return how long the reply to a prompt may get: a whole number, or infinity."""
        in_context = math.inf if self.context_tokens is None else self.context_tokens
        in_reply = math.inf if self.reply_tokens is None else self.reply_tokens
        return min(in_reply, in_context - prompt_tokens)


def as_limits(limits: object) -> TextLimits:
    """Return limits; None stands for none.

    Raises:
        ValueError: If it is anything else.
    """
    if limits is None:
        return TextLimits()
    if not isinstance(limits, TextLimits):
        raise ValueError(f"limits must be TextLimits(...) or None, got {limits!r}")  # noqa: TRY004
    return limits
