"""EARL's measurements of two degrees, and how well a rule foretells which is the faster.

The grid is figure 3 of EARL (arXiv:2510.05943): speed-up in per cent of TP 8 over TP 4, in tokens
per second and device, of Qwen2.5-72B-Instruct on H100-80GB devices, read from the picture. Rows and
columns are taken to be responses of one engine and their context; the paper leaves open whether the
responses are those of one engine or of all.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, final

SMALL_TP: Final = 4
LARGE_TP: Final = 8


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fig3Cell:
    """One load and what was measured there."""

    num_responses: int
    context_tokens: int
    speedup_percent: float | None
    """Of TP 8 over TP 4; None in the one cell in which TP 4 ran out of memory."""

    @property
    def resident_tokens(self) -> int:
        """Responses x context."""
        return self.num_responses * self.context_tokens


def read_cells() -> tuple[Fig3Cell, ...]:
    """Return all 30 cells; 29 have a figure."""
    lines = files("earl_selector").joinpath("fig3.csv").read_text().splitlines()
    return tuple(
        Fig3Cell(
            num_responses=int(row["num_responses"]),
            context_tokens=int(row["context_tokens"]),
            speedup_percent=float(row["speedup_percent"]) if row["speedup_percent"] else None,
        )
        for row in csv.DictReader(lines)
    )


def count_right(cells: Sequence[Fig3Cell], says_large: Callable[[Fig3Cell], bool]) -> int:
    """Count the measured cells in which a rule names the faster degree.

    Args:
        cells: Those without a figure do not count.
        says_large: The rule: whether TP 8 is the faster one.
    """
    return sum(
        says_large(cell) == (cell.speedup_percent > 0)
        for cell in cells
        if cell.speedup_percent is not None
    )


def list_beyond(cells: Sequence[Fig3Cell], capacity_tokens: int) -> tuple[Fig3Cell, ...]:
    """Return the cells with more resident tokens than an engine holds."""
    return tuple(cell for cell in cells if cell.resident_tokens > capacity_tokens)


def separating_capacities(cells: Sequence[Fig3Cell]) -> range:
    """Return the capacities C for which "TP 8 iff resident tokens > C" is right everywhere.

    Empty if there is none.
    """
    small = [cell.resident_tokens for cell in cells if (cell.speedup_percent or 0) < 0]
    large = [cell.resident_tokens for cell in cells if (cell.speedup_percent or 0) > 0]
    return range(max(small), min(large))


def best_context_rule(cells: Sequence[Fig3Cell]) -> tuple[int, int]:
    """Return the threshold c for which "TP 8 iff context >= c" is right most often, and how often.

    The rule of EARL (section 2), which keeps one degree per range of contexts, with thresholds
    that serve every number of responses.
    """
    thresholds = sorted({cell.context_tokens for cell in cells})
    return max(
        ((threshold, count_right(cells, context_rule(threshold))) for threshold in thresholds),
        key=lambda pair: pair[1],
    )


def context_rule(threshold_tokens: int) -> Callable[[Fig3Cell], bool]:
    """Return the rule "TP 8 iff context >= threshold"."""
    return lambda cell: cell.context_tokens >= threshold_tokens


def capacity_rule(capacity_tokens: int) -> Callable[[Fig3Cell], bool]:
    """Return the rule "TP 8 iff resident tokens > capacity of TP 4"."""
    return lambda cell: cell.resident_tokens > capacity_tokens
