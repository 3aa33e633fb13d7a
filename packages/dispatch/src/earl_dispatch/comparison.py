"""Simulated transports side by side, with the floor and with what a paper measured."""

from collections.abc import Callable
from dataclasses import dataclass

from earl_dispatch.simulator import DIRECT, Simulated

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Transfers that belong together, each by every transport."""

    title: str
    simulated: tuple[Simulated, ...]
    measured_ratios: tuple[float, ...] = ()
    """Times as long as `all_to_all` that a controller took where it was measured; or empty."""

    def __post_init__(self) -> None:
        if not self.simulated or len(self.measured_ratios) not in (0, len(self.simulated)):
            raise ValueError(
                "a comparison needs transfers and a measured ratio for all or none of them, got "
                f"{len(self.simulated)} transfers and {len(self.measured_ratios)} ratios"
            )

    @property
    def transports(self) -> tuple[str, ...]:
        """Names of the transports, the direct one first."""
        return tuple(self.simulated[0].seconds)

    def rows(self) -> list[tuple[str, ...]]:
        """Return the table as text: a heading, then a label and one cell for every transfer."""
        others = [name for name in self.transports if name != DIRECT]
        rows = [
            ("", *(each.scenario.name for each in self.simulated)),
            self._row("MiB in all", lambda s: _number(s.scenario.total_bytes / _MIB)),
            self._row("MiB of each rank", lambda s: _number(s.scenario.rank_bytes / _MIB)),
            self._row("floor, s", lambda s: _number(s.floor_s)),
            *(self._seconds_row(name) for name in self.transports),
            self._row(f"{DIRECT} / floor", lambda s: f"{s.seconds[DIRECT] / s.floor_s:.2f}"),
            *(self._ratio_row(name) for name in others),
        ]
        if self.measured_ratios:
            rows.append((
                "measured in the paper",
                *(f"{ratio:.1f}" for ratio in self.measured_ratios),
            ))
        return rows

    def _seconds_row(self, transport: str) -> tuple[str, ...]:
        return self._row(f"{transport}, s", lambda s: _number(s.seconds[transport]))

    def _ratio_row(self, transport: str) -> tuple[str, ...]:
        return self._row(f"{transport} / {DIRECT}", lambda s: f"{s.ratio(transport):.1f}")

    def _row(self, label: str, cell: Callable[[Simulated], str]) -> tuple[str, ...]:
        return (label, *map(cell, self.simulated))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
