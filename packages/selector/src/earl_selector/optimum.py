"""The best that any policy could have done on a trace, computed afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, inf
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A degree for each step, and what they take together, switches included."""

    degrees: tuple[int, ...]
    total_s: float

    @property
    def num_switches(self) -> int:
        """Count the steps whose degree differs from the one before."""
        return sum(a != b for a, b in pairwise(self.degrees))


def find_optimum(
    seconds: Sequence[Sequence[float]], degrees: Sequence[int], *, switch_s: float | int
) -> Schedule:
    """Find the schedule with the least total time by dynamic programming, exactly.

    V_i(d) = T_i(d) + min over e of (V_{i-1}(e) + [e != d] S). Source: Bellman 1957, Dynamic
    Programming; this is the offline optimum of a metrical task system (Borodin, Linial and Saks
    1992, "An optimal on-line algorithm for metrical task system") on a uniform metric. The first
    degree costs no switch.

    Args:
        seconds: Time of each step at each of `degrees`, in their order; infinity where it fails.
        degrees: Their names.
        switch_s: What a change takes.

    Raises:
        ValueError: If at some step no degree can run, or there is no step.
    """
    if not seconds:
        raise ValueError("a schedule needs at least one step, got none")
    for step, row in enumerate(seconds):
        if min(row) == inf:
            raise ValueError(f"no degree of {tuple(degrees)} can run step {step} of the trace")
    places = range(len(degrees))
    best = list(seconds[0])
    origins: list[list[int]] = []
    for row in seconds[1:]:
        origin = [
            min(places, key=lambda old, new=new: best[old] + (old != new) * switch_s)
            for new in places
        ]
        best = [
            row[new] + best[old] + (old != new) * switch_s
            for new, old in zip(places, origin, strict=True)
        ]
        origins.append(origin)
    place = min(places, key=lambda each: best[each])
    path = [place]
    for origin in reversed(origins):
        path.append(origin[path[-1]])
    path.reverse()
    num_switches = sum(a != b for a, b in pairwise(path))
    total_s = fsum([row[each] for row, each in zip(seconds, path, strict=True)])
    return Schedule(
        degrees=tuple(degrees[each] for each in path), total_s=total_s + num_switches * switch_s
    )
