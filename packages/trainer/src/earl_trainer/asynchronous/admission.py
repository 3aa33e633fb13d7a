"""How many groups of episodes may be under way, so that what is trained is not too old."""

from dataclasses import dataclass
from enum import StrEnum


class Bound(StrEnum):
    """What `max_staleness` promises."""

    ADMISSION = "admission"
    """Groups are admitted by the rule; one that takes long may be trained at any age."""
    STRICT = "strict"
    """Groups are also trained in the order of admission, stragglers waited for: no token is older.
    """
    NONE = "none"
    """Nothing: as many groups run as may, while there is room for finished ones to wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """What has become of all groups so far; every group is counted once.

    submitted = accepted + rejected + running, accepted = consumed + queued + dropped.
    """

    submitted: int = 0
    running: int = 0
    accepted: int = 0
    rejected: int = 0
    """Of which nothing can be trained, or is to be; their place is given to another."""
    consumed: int = 0
    """Trained on."""
    queued: int = 0
    """Finished, and waiting to be trained on."""
    dropped: int = 0
    """Finished, and found too old; their place is given to another."""

    @property
    def balanced(self) -> bool:
        """Whether no group was lost or counted twice."""
        return (
            self.submitted == self.accepted + self.rejected + self.running
            and self.accepted == self.consumed + self.queued + self.dropped
        )


def num_admissible(
    counts: GroupCounts,
    *,
    version: int,
    batch_groups: int,
    max_staleness: int | None,
    max_running: int | None = None,
    max_under_way: int | None = None,
) -> int:
    """Return how many more groups may be started.

    A group may be started while floor((N - 1) / B) <= i + eta holds with it, N the groups started
    so far that are or will be trained on, B the groups of a batch, i the version of the weights
    (AReaL, arXiv:2505.24298, eq. 3): N <= (i + eta + 1) B.

    Args:
        counts: So far; those rejected or dropped have given their place back.
        version: i, the batches that have been trained on.
        batch_groups: B.
        max_staleness: eta, 0 or more; None for no bound.
        max_running: Groups that may run at once; None for any number.
        max_under_way: Groups that may run, or wait to be trained on, at once; None for any number.
    """
    room: list[int] = []
    if max_staleness is not None:
        started = counts.running + counts.accepted - counts.dropped
        room.append((version + max_staleness + 1) * batch_groups - started)
    if max_running is not None:
        room.append(max_running - counts.running)
    if max_under_way is not None:
        room.append(max_under_way - counts.running - counts.queued)
    if not room:
        raise ValueError("something must bound the groups, got no limit at all")
    return max(0, min(room))
