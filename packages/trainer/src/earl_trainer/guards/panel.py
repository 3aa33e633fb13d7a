"""All guards of a run together: from the figures of a step to one verdict."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, final

from earl_trainer.guards.guard import Action, Guard, Row

_SEVERITY: Final = tuple(Action)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A guard and what follows when it finds something."""

    name: str
    guard: Guard
    action: Action


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """What a guard found at a step."""

    guard: str
    action: Action
    reason: str
    first_step: int
    """The first of the steps that show it; checkpoints before it are good."""
    new: bool
    """Whether it had not found it at the step before."""

    def describe(self) -> str:
        """Put it into one line."""
        return f"guard {self.guard}: {self.reason}"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PanelState:
    """What guards have seen; it is saved with a run."""

    rows: Mapping[str, Sequence[Row]] = field(default_factory=dict[str, Sequence[Row]])
    """Name of a guard -> the latest rows of its figures."""
    num_alarms: Mapping[str, int] = field(default_factory=dict[str, int])
    """Name of a guard -> steps at which it has found something."""
    ringing: Sequence[str] = ()
    """Guards that found something at the last step."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return the state as plain values."""
        return {
            "rows": {name: [list(row) for row in rows] for name, rows in self.rows.items()},
            "num_alarms": dict(self.num_alarms),
            "ringing": list(self.ringing),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "PanelState":  # Any: parsed JSON
        """Rebuild a state from what `to_dict` returned."""
        return cls(
            rows={name: tuple(map(tuple, rows)) for name, rows in values["rows"].items()},
            num_alarms=values["num_alarms"],
            ringing=tuple(values["ringing"]),
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """The guards that a run has switched on."""

    watches: Sequence[Watch]

    @property
    def rolls_back(self) -> bool:
        """Whether one of them may ask for a rollback."""
        return any(watch.action is Action.ROLL_BACK for watch in self.watches)

    def update(
        self, state: PanelState, metrics: Mapping[str, float], *, step: int
    ) -> tuple[list[Alarm], PanelState]:
        """Show the figures of a step to every guard.

        Args:
            state: After the step before.
            metrics: Of the step.
            step: Its number.

        Returns:
            What they found, the most severe action first, and the state after the step.
        """
        rows, alarms = dict(state.rows), list[Alarm]()
        for watch in self.watches:
            guard = watch.guard
            if any(figure not in metrics for figure in guard.figures):
                continue
            latest = tuple(metrics[figure] for figure in guard.figures)
            rows[watch.name] = (*rows.get(watch.name, ()), latest)[-guard.num_rows :]
            evidence = guard.judge(rows[watch.name])
            if evidence is not None:
                alarms.append(
                    Alarm(
                        guard=watch.name,
                        action=watch.action,
                        reason=evidence.reason,
                        first_step=step - evidence.num_steps + 1,
                        new=watch.name not in state.ringing,
                    )
                )
        counts = dict(state.num_alarms)
        for alarm in alarms:
            counts[alarm.guard] = counts.get(alarm.guard, 0) + 1
        alarms.sort(key=lambda alarm: -_SEVERITY.index(alarm.action))
        ringing = tuple(alarm.guard for alarm in alarms)
        return alarms, PanelState(rows=rows, num_alarms=counts, ringing=ringing)

    def metrics(self, state: PanelState) -> dict[str, float]:
        """Say of every guard whether it finds something now."""
        return {f"guard/{watch.name}": float(watch.name in state.ringing) for watch in self.watches}
