"""The groups of a phase, counted over its steps."""

from collections.abc import Callable
from dataclasses import replace

from earl_trainer.phases import Phase
from earl_trainer.types import EpisodeStart


def group_starts(phase: Phase, *, seed: int, num_seats: int) -> Callable[[int], list[EpisodeStart]]:
    """Return the function from a group's number to its episodes: those of the synchronous run.

    Group n is group n mod B of step n // B of the phase. Identities are made the group's own, as
    groups of several steps are under way together.
    """
    batch_groups = groups_per_step(phase, num_seats=num_seats)

    def starts(number: int) -> list[EpisodeStart]:
        step, place = divmod(number, batch_groups)
        planned = phase.starts(seed, phase.first_step + step, num_seats=num_seats)
        tables = len({start.table for start in planned})
        return [
            replace(
                start,
                episode=start.episode + step * len(planned),
                table=start.table + step * tables,
                group=number,
            )
            for start in planned
            if start.group == place
        ]

    return starts


def groups_per_step(phase: Phase, *, num_seats: int) -> int:
    """Return B, the groups of a batch."""
    return phase.num_episodes // (phase.group_size * (num_seats if phase.self_play else 1))
