"""Shows a run's steps to its guards, and does what they ask for."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import final

from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.guards.guard import Action
from earl_trainer.guards.panel import Alarm, Panel, PanelState
from earl_trainer.guards.rollbacks import Rollback, RollbackLog


@final
class Guardian:
    """Guards are pure; this is what touches files on their behalf, in the first worker alone.

    Args:
        panel: The guards.
        checkpoints: Of the run.
        log: Of its rollbacks.
        max_rollbacks: The most that a run makes; what asks for another stops it.
    """

    def __init__(
        self,
        panel: Panel,
        checkpoints: CheckpointStore,
        log: RollbackLog,
        *,
        max_rollbacks: int,
    ) -> None:
        self.panel = panel
        self._checkpoints = checkpoints
        self._log = log
        self._max_rollbacks = max_rollbacks
        self.rollbacks = log.read()

    def inspect(
        self,
        state: PanelState,
        metrics: Mapping[str, float],
        *,
        step: int,
        note: Callable[[str], None],
    ) -> tuple[Alarm | None, PanelState, dict[str, float]]:
        """Show the figures of a step to the guards and say what is new.

        Args:
            state: Of the guards after the step before.
            metrics: Of the step, and of the latest checkup.
            step: Its number.
            note: Is told in a line of each alarm that was not there at the step before.

        Returns:
            The most severe alarm, the guards' new state, and figures for the step's record.
        """
        alarms, state = self.panel.update(state, metrics, step=step)
        for alarm in alarms:
            if alarm.new:
                note(f"step {step + 1}: {alarm.describe()}")
        figures = self.panel.metrics(state) | {
            "guard/rollbacks": float(len(self.rollbacks)),
            **{
                f"guard/{name}": metrics[f"policy/{name}"]
                for name in ("left_out_updates", "skipped_updates", "clipped_updates")
                if f"policy/{name}" in metrics
            },
        }
        return (alarms[0] if alarms else None), state, figures

    def settle(self, alarm: Alarm, *, step: int, first_step: int) -> Alarm:
        """Go back as an alarm asks for; return it with what really follows.

        Checkpoints of the steps that are given up are deleted, so that the latest one left is the
        one to go on from. Without a good checkpoint of the phase, or after too many rollbacks, the
        run stops.

        Args:
            alarm: That asks for a rollback.
            step: The step that the run would make next.
            first_step: Of the phase.
        """
        good = [
            saved
            for saved in self._checkpoints.complete()
            if first_step <= saved < alarm.first_step
        ]
        if len(self.rollbacks) >= self._max_rollbacks or not good:
            why = (
                f"no checkpoint from before step {alarm.first_step + 1} to go back to"
                if not good
                else f"{len(self.rollbacks)} rollbacks were made, no more are allowed"
            )
            return replace(alarm, action=Action.STOP, reason=f"{alarm.reason}; {why}")
        rollback = Rollback(
            from_step=step, to_step=good[-1], guard=alarm.guard, reason=alarm.reason
        )
        # The log first: killed in between, the run goes on later than it should, and remembers.
        self._log.append(rollback)
        self._checkpoints.drop_after(good[-1])
        return alarm
