"""What an engine says to a request that is larger than all that it holds."""

from typing import final

from earl_trainer.types import RunFailedError


@final
class CapacityError(RunFailedError, ValueError):
    """One request alone does not fit an engine: no run can go on, and a profile counts it as 0."""
