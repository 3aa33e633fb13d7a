"""The one place that knows what has become of every group of episodes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

from earl_trainer.asynchronous.admission import Bound, GroupCounts, num_admissible
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.types import Episode


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedGroup:
    """A group whose episodes have all ended."""

    number: int
    """Counted over the phase."""
    episodes: Sequence[Episode]

    @property
    def oldest_version(self) -> int | None:
        """The oldest weights that emitted one of its tokens; None without such a token."""
        versions = [
            version
            for episode in self.episodes
            for turn in episode.turns
            for version in turn.versions
            if version > NO_WEIGHTS
        ]
        return min(versions, default=None)

    @property
    def trainable(self) -> bool:
        """Whether one of its episodes has something to train on."""
        return any(episode.summary.trainable for episode in self.episodes)


def is_trainable(group: FinishedGroup, counts: GroupCounts) -> bool:
    """Accept a group of which one episode has something to train on, whatever became of others."""
    del counts
    return group.trainable


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessRules:
    """What may be under way, and what becomes of what is too old."""

    batch_groups: int
    max_staleness: int
    bound: Bound
    discard: bool = False
    """Drop groups with a token older than `max_staleness` instead of training on them."""
    max_running: int | None = None
    """Groups that may run at once; needed without a bound."""
    max_under_way: int | None = None
    """Groups that may run, or wait to be trained on, at once; what limits the queue without a
    bound."""


@final
class GroupLedger:
    """Admits groups, takes them back finished, and hands them out in batches, oldest first.

    Lifecycle of a group: admitted by `admit`; given back by `finish`, which keeps it or rejects it;
    handed out by `take_batch`, or dropped there. Whoever plays a group may change in between.

    Args:
        rules: Of the run.
        num_consumed: Groups trained on before, of a run that goes on.
        first: The number of the first group that has never been admitted.
        again: Numbers of groups that were under way then; they are admitted first.
        accepts: Whether a group that has finished is kept, by what became of those before it.
    """

    def __init__(
        self,
        rules: StalenessRules,
        *,
        num_consumed: int = 0,
        first: int = 0,
        again: Sequence[int] = (),
        accepts: Callable[[FinishedGroup, GroupCounts], bool] = is_trainable,
    ) -> None:
        self._rules = rules
        self._accepts = accepts
        self._again = sorted(again)
        self._next = first
        self._running: set[int] = set()
        self._queued: dict[int, FinishedGroup] = {}
        self.counts = GroupCounts(
            submitted=num_consumed, accepted=num_consumed, consumed=num_consumed
        )

    @property
    def unfinished(self) -> list[int]:
        """Groups admitted and not trained on: what a run that goes on has to play again."""
        return sorted([*self._again, *self._running, *self._queued])

    def admit(self, version: int) -> list[int]:
        """Admit what may be started at a version of the weights; return the numbers."""
        rules = self._rules
        room = num_admissible(
            self.counts,
            version=version,
            batch_groups=rules.batch_groups,
            max_staleness=None if rules.bound is Bound.NONE else rules.max_staleness,
            max_running=rules.max_running,
            max_under_way=rules.max_under_way,
        )
        again, self._again = self._again[:room], self._again[room:]
        fresh = range(self._next, self._next + room - len(again))
        self._next = fresh.stop
        self._running.update(again, fresh)
        self._count(submitted=room, running=room)
        return [*again, *fresh]

    def finish(self, group: FinishedGroup) -> None:
        """Take a group back: it waits to be trained on if it is accepted.

        Raises:
            ValueError: If no such group is running.
        """
        if group.number not in self._running:
            raise ValueError(f"group {group.number} is not running")
        self._running.remove(group.number)
        if self._accepts(group, self.counts):
            self._queued[group.number] = group
            self._count(running=-1, accepted=1, queued=1)
        else:
            self._count(running=-1, rejected=1)

    def requeue(self, numbers: Sequence[int]) -> None:
        """Let groups that are running be played again from the start: whoever played is gone."""
        self._running.difference_update(numbers)
        self._again = sorted([*self._again, *numbers])
        self._count(submitted=-len(numbers), running=-len(numbers))

    def take_batch(self, version: int) -> list[FinishedGroup] | None:
        """Hand out the next batch, by the numbers of its groups; None while it is not complete.

        Args:
            version: Of the weights that it is to be trained with.
        """
        rules = self._rules
        if rules.discard:
            self._drop_older_than(version - rules.max_staleness)
        ready = sorted(self._queued)[: rules.batch_groups]
        if len(ready) < rules.batch_groups:
            return None
        under_way = (*self._running, *self._again)
        if rules.bound is Bound.STRICT and any(number < ready[-1] for number in under_way):
            return None
        batch = [self._queued.pop(number) for number in ready]
        self._count(queued=-len(batch), consumed=len(batch))
        return batch

    def _drop_older_than(self, version: int) -> None:
        for number, group in list(self._queued.items()):
            oldest = group.oldest_version
            if oldest is not None and oldest < version:
                del self._queued[number]
                self._count(queued=-1, dropped=1)

    def _count(self, **changes: int) -> None:
        counts = {name: getattr(self.counts, name) + change for name, change in changes.items()}
        self.counts = replace(self.counts, **counts)
        assert self.counts.balanced

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what a run that goes on needs to know."""
        return {
            "num_consumed": self.counts.consumed,
            "first": self._next,
            "again": self.unfinished,
        }

    @classmethod
    def from_dict(
        cls,
        rules: StalenessRules,
        values: Mapping[str, Any],
        accepts: Callable[[FinishedGroup, GroupCounts], bool] = is_trainable,
    ) -> "GroupLedger":
        """Go on from what `to_dict` returned: what was under way is played again."""
        return cls(rules, accepts=accepts, **values)
