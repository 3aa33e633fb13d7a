"""What is known of servers before they are asked for anything."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """The model that a server serves."""

    name: str
    """What requests call it."""
    max_context_tokens: int | None
    """Longest prompt and reply together; None if the server does not tell."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What all servers of an engine have in common."""

    stop_ids: frozenset[int]
    """Tokens that end a reply."""
    update_timeout_s: float | int
    """Longest time that a pause, new weights, or going on again may take."""
    assumed_capacity_tokens: int
    """Context tokens that a server holds which does not tell."""
