"""What each degree gives over a range of contexts: speed, memory, and where it ends."""

from dataclasses import dataclass
from itertools import pairwise
from typing import final

from earl_selector.memory import MemoryModel
from earl_selector.throughput import ThroughputModel


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TpForecast:
    """One degree at one context."""

    tp: int
    context_tokens: int
    num_running: int
    """How many of the responses fit at once; the others queue."""
    tokens_per_s_per_device: float
    """0.0 where not even one response fits."""
    used_bytes: int
    """Of each device, with the responses that run."""

    @property
    def fits(self) -> bool:
        """Tell whether the degree can work at all at this context."""
        return self.num_running > 0


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """Where another degree becomes the fastest."""

    context_tokens: int
    """The first context at which it is."""
    from_tp: int
    to_tp: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TpPlan:
    """Forecasts of every degree at every context, with two bounds kept apart.

    Beyond `queueing_tokens` responses wait for one another, which costs time; beyond `wall_tokens`
    not even one response fits, and an engine at this degree fails.
    """

    memory: MemoryModel
    throughput: ThroughputModel
    degrees: tuple[int, ...]
    num_responses: int
    """Of each engine."""
    contexts: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.degrees or not self.contexts:
            raise ValueError("a plan needs at least one degree and one context")
        if self.num_responses < 1 or min(self.contexts) < 1:
            raise ValueError(
                "responses and contexts must be >= 1, got "
                f"{self.num_responses} and {min(self.contexts)}"
            )
        for tp in self.degrees:
            self.memory.check_degree(tp)

    def forecast(self, tp: int, context_tokens: int) -> TpForecast:
        """Forecast one degree at one context."""
        num_running = min(self.num_responses, self.memory.capacity_tokens(tp) // context_tokens)
        return TpForecast(
            tp=tp,
            context_tokens=context_tokens,
            num_running=num_running,
            tokens_per_s_per_device=self.throughput.tokens_per_s_per_device(
                tp, self.num_responses, context_tokens
            ),
            used_bytes=self.memory.used_bytes(tp, num_running * context_tokens),
        )

    def best_tp(self, context_tokens: int) -> int | None:
        """Return the degree with the most tokens per second and device; None if none fits."""
        forecasts = [self.forecast(tp, context_tokens) for tp in self.degrees]
        best = max(forecasts, key=lambda each: each.tokens_per_s_per_device)
        return best.tp if best.fits else None

    def crossovers(self) -> tuple[Crossover, ...]:
        """Find where the best degree changes, to the token, between neighbouring contexts.

        By bisection, so of several changes between two contexts one is found.
        """
        return tuple(
            crossover
            for low, high in pairwise(sorted(self.contexts))
            if (crossover := self._bisect(low, high)) is not None
        )

    def queueing_tokens(self, tp: int) -> int:
        """Return the longest context at which all responses still run at once."""
        return self.memory.capacity_tokens(tp) // self.num_responses

    def wall_tokens(self, tp: int) -> int:
        """Return the longest context of which one response fits."""
        return self.memory.capacity_tokens(tp)

    def _bisect(self, low: int, high: int) -> Crossover | None:
        # Beyond the last wall no degree is the best.
        high = min(high, max(self.wall_tokens(tp) for tp in self.degrees))
        from_tp = self.best_tp(low)
        to_tp = None if from_tp is None else self.best_tp(high)
        if from_tp is None or to_tp is None or from_tp == to_tp:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            best = self.best_tp(middle)
            assert best is not None  # A longer context fits.
            if best == from_tp:
                low = middle
            else:
                high, to_tp = middle, best
        return Crossover(context_tokens=high, from_tp=from_tp, to_tp=to_tp)


def double_from(low: int, high: int) -> tuple[int, ...]:
    """Return low, 2 low, 4 low, ... and last of all high."""
    if not 1 <= low <= high:
        raise ValueError(f"a range of contexts must rise from at least 1, got {low} to {high}")
    contexts: list[int] = []
    while low < high:
        contexts.append(low)
        low *= 2
    return (*contexts, high)
