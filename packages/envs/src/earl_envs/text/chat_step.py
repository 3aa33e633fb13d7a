"""What a reply led to."""

from dataclasses import dataclass
from typing import final

from earl_envs.text.protocol import ParseFailure


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChatStep:
    """What became of a reply."""

    action: int | None
    """The action that was played, None if none was."""
    failure: ParseFailure | None = None
    """What was wrong with the reply."""
    detail: str = ""
    """One line for people about what was wrong."""
    substituted: bool = False
    """Whether chance chose the action because the reply gave none."""
