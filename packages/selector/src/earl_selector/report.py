"""What one rollout tells the selector."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """The contexts of one rollout, of one engine or of all, depending on their `Deployment`.

    `REPLICAS`: of one engine, as each has such a load of its own. `SHARING`: of all engines
    together, among which the responses are divided. `SINGLE`: of the one engine there is.

    `resident_tokens` is demand: an engine that queued or preempted still reports the tokens that
    its responses would have held together, or the policy would never see the overflow.
    """

    step: int
    """Training step of the rollout; reports arrive in rising order."""
    num_responses: int
    """Responses that were in flight together at most."""
    mean_context_tokens: float
    max_context_tokens: int
    """The longest context, prompts and replies of all its turns counted."""
    resident_tokens: int
    """Peak tokens held at once: the sum of the contexts in flight together."""
    rollout_s: float | None = None
    """What the rollout took; None if nobody measured it."""
    switch_s: float | None = None
    """What the change of degree before it took; None if there was none."""

    def __post_init__(self) -> None:
        if min(self.step, self.num_responses, self.resident_tokens, self.max_context_tokens) < 0:
            raise ValueError(f"the counts of a context report must be >= 0, got {self}")
        if not 0.0 <= self.mean_context_tokens <= self.max_context_tokens:
            raise ValueError(
                "mean_context_tokens must lie between 0 and max_context_tokens, got "
                f"{self.mean_context_tokens} and {self.max_context_tokens}"
            )
        if min(self.rollout_s or 0.0, self.switch_s or 0.0) < 0.0:
            raise ValueError(f"the seconds of a context report must be >= 0, got {self}")

    @property
    def average_load(self) -> tuple[int, int]:
        """Return responses, and the context of each if all had the same; both at least one."""
        num_responses = max(1, self.num_responses)
        return num_responses, max(1, -(-self.resident_tokens // num_responses))
