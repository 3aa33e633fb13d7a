"""How many games the episodes of a step play in one context."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GamesSchedule:
    """The games of each group of a step's episodes; they set how long contexts get.

    Example:
        >>> schedule = GamesSchedule(most=3, ramp_steps=4)
        >>> [schedule.of_groups(step, num_groups=4, num_seats=2) for step in range(4)]
        [(1, 1, 1, 1), (1, 1, 2, 2), (2, 2, 2, 2), (2, 2, 3, 3)]
    """

    most: int
    ramp_steps: int = 0
    """Steps over which the mean rises evenly from one game to `most`; 0 begins there."""

    def mean(self, step: int) -> float:
        """Return the games of an episode at a step of a rising schedule, counted from 0.

        1 + (most - 1) min(1, step / ramp_steps).
        """
        share = min(1.0, step / self.ramp_steps) if self.ramp_steps else 1.0
        return 1.0 + (self.most - 1) * share

    def of_groups(self, step: int, *, num_groups: int, num_seats: int) -> tuple[int, ...]:
        """Return the games of each group's episodes, the longer ones evenly among the groups.

        Where the mean is no whole number, groups play the one below or above, as many of each as
        bring the groups' mean nearest. That seats alternate from group to group makes no
        difference: each seat's groups are served one after the other.
        """
        by_seat = sorted(range(num_groups), key=lambda group: (group % num_seats, group))
        fewest = int(self.mean(step))
        num_longer = round((self.mean(step) - fewest) * num_groups)
        games = [fewest] * num_groups
        for place, group in enumerate(by_seat):
            games[group] += (
                place + 1
            ) * num_longer // num_groups > place * num_longer // num_groups
        return tuple(games)
