"""The receiving end of a broadcast, in a process that generates."""

from typing import final

from earl_trainer.asynchronous.flat_weights import FlatLayout, Parts
from earl_trainer.asynchronous.weight_group import (
    BrokenBroadcastError,
    Meeting,
    WeightGroup,
    device_id_of,
    join_group,
)


@final
class WeightReceiver:
    """Takes weights in beside whatever the process does; nothing generates with them before `take`.

    Failures are returned, not raised: it is for the sender to find out who is gone, and whoever
    only noticed it goes on with the weights that it has.
    """

    def __init__(self) -> None:
        self._group: WeightGroup | None = None
        self._arrived: Parts | None = None

    def join(self, meeting: Meeting) -> str | None:
        """Meet the sender and the other receivers; return what went wrong, if anything."""
        self._group = None
        try:
            self._group = join_group(meeting, device_id_of())
        except BrokenBroadcastError as error:
            return str(error)
        return None

    def receive(self, layout: FlatLayout, bucket_bytes: int) -> str | None:
        """Take part in one broadcast; return what went wrong, if anything."""
        self._arrived, group = None, self._group
        if group is None:
            return "it has joined no group"
        try:
            row = group.receive(layout, bucket_bytes)
        except BrokenBroadcastError as error:
            # Others may wait on its connections; a group that was joined meanwhile stays.
            self._group = None if self._group is group else self._group
            return str(error)
        self._arrived = layout.split(row)
        return None

    def take(self) -> Parts:
        """Return the bytes of every parameter that arrived last, once.

        Raises:
            RuntimeError: If not all of them have arrived.
        """
        arrived, self._arrived = self._arrived, None
        if arrived is None:
            raise RuntimeError("no weights have arrived")
        return arrived
