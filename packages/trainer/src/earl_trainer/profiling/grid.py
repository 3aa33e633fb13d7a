"""Which degrees and loads are worth measuring for a run."""

from dataclasses import dataclass
from typing import Final, final

from earl_selector import ProfileGrid

MIN_CONTEXT_TOKENS: Final = 8
"""The shortest context that can be measured: some tokens to begin with and some to generate."""
_NUM_HALVINGS: Final = 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class DegreeLoad:
    """What one engine of a degree has to do."""

    tp: int
    num_responses: int
    """The most that one engine has in flight."""
    capacity_tokens: int
    """Context tokens that it holds; more are generated in several waves."""
    num_engines: int = 1
    """Engines of this degree, each with so many responses."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RunLoad:
    """What a run asks of its engines."""

    degrees: tuple[DegreeLoad, ...]
    """Ascending."""
    max_context_tokens: int
    max_reply_tokens: int

    @property
    def num_engines(self) -> dict[int, int]:
        """Degree -> engines that generate side by side."""
        return {each.tp: each.num_engines for each in self.degrees}


def plan_grid(load: RunLoad) -> ProfileGrid:
    """Plan what to measure: loads by halves down from the largest, and both sides of every edge.

    Throughput falls steeply where responses begin to queue. Interpolated from points that lie far
    to both sides, the edge would be a slope; so the context with which a degree is exactly full
    is measured, and one an eighth longer.

    Raises:
        ValueError: If contexts are too short to be measured.
    """
    longest = load.max_context_tokens
    if longest < MIN_CONTEXT_TOKENS:
        raise ValueError(
            f"a context must have at least {MIN_CONTEXT_TOKENS} tokens to be measured, "
            f"got {longest}"
        )
    contexts = {max(MIN_CONTEXT_TOKENS, tokens) for tokens in _halve(load.max_context_tokens)}
    shortest = min(contexts)
    beyond = 0
    for full in sorted(each.capacity_tokens // each.num_responses for each in load.degrees):
        # One that lies between the two sides of the one before has its own sides there.
        if shortest < full < longest and full >= beyond:
            beyond = min(longest, full + -(-full // 8))
            contexts |= {full, beyond}
    most = [each.num_responses for each in load.degrees]
    return ProfileGrid(
        degrees=tuple(each.tp for each in load.degrees),
        num_responses=tuple(sorted({*most, *_halve(max(most))})),
        context_tokens=tuple(sorted(contexts)),
    )


def _halve(largest: int) -> set[int]:
    return {-(-largest // 2**times) for times in range(_NUM_HALVINGS + 1)}
