"""What the embedded engine holds between two calls, and what makes room for the next."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

from earl_trainer.rollout.engine import Request
from earl_trainer.rollout.kv_cache import Conversations, Group, regroup


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wave:
    """Conversations that were last asked for together."""

    sequence_ids: Sequence[int]
    """Of each row."""
    conversations: Conversations

    def without(self, asked: Collection[int], spare_slots: int) -> tuple[list[int], Group]:
        """Return the rows of sequences not asked for, as many as fit.

        The wave stays as it is if nothing is asked of it and it fits, else its rows have no more
        slots than their tokens.
        """
        rows = [row for row, number in enumerate(self.sequence_ids) if number not in asked]
        num_slots = self.conversations.num_slots
        if len(rows) < len(self.sequence_ids) or len(rows) * num_slots > spare_slots:
            num_slots = max(1, self.conversations.longest_tokens(rows))
            rows = rows[: spare_slots // num_slots]
        ids = [self.sequence_ids[row] for row in rows]
        return ids, Group(picks=[(self.conversations, rows)], num_slots=num_slots)


@final
class HeldConversations:
    """Conversations in the order in which they were last asked for, for requests to continue.

    Lifecycle: `take` what a wave of requests continues, `keep` it afterwards.
    """

    def __init__(self) -> None:
        self._waves: list[_Wave] = []

    @property
    def sequence_ids(self) -> list[int]:
        """Of all rows, those asked for last at the end."""
        return [number for wave in self._waves for number in wave.sequence_ids]

    @property
    def num_slots(self) -> int:
        """Slots allocated."""
        return sum(wave.conversations.num_slots_held for wave in self._waves)

    @property
    def num_bytes(self) -> int:
        """Bytes of storage allocated."""
        return sum(wave.conversations.num_bytes for wave in self._waves)

    def clear(self) -> None:
        """Drop everything."""
        self._waves = []

    def keep(self, sequence_ids: Sequence[int], conversations: Conversations) -> None:
        """Hold the conversations of a wave, one row per sequence."""
        self._waves.append(_Wave(sequence_ids=sequence_ids, conversations=conversations))

    def find(self, requests: Sequence[Request]) -> dict[int, tuple[int, int]]:
        """Return what requests continue: place of the request -> number of the wave, and row."""
        asked = {request.sequence_id: place for place, request in enumerate(requests)}
        found: dict[int, tuple[int, int]] = {}
        for number, wave in enumerate(self._waves):
            for row, sequence_id in enumerate(wave.sequence_ids):
                place = asked.get(sequence_id)
                if place is not None and _extends(
                    requests[place].prompt_ids, wave.conversations.contexts[row]
                ):
                    found[place] = number, row
        return found

    def take(
        self, requests: Sequence[Request], *, num_slots: int, spare_slots: int
    ) -> tuple[list[int], Conversations | None]:
        """Take out what a wave of requests continues and drop what does not fit beside it.

        What the requests ask for but do not continue is dropped; of the rest, what was not asked
        for longest.

        Args:
            requests: The wave.
            num_slots: Of each of its rows, in the end.
            spare_slots: What may be held besides.

        Returns:
            Places of the requests that continue something, and their conversations in this order;
            these have `num_slots` if they are the whole wave, else room for their prompts.
        """
        found = self.find(requests)
        places = sorted(found, key=found.__getitem__)
        rest = self._rest({request.sequence_id for request in requests}, spare_slots)
        groups = [group for _, group in rest]
        if len(places) < len(requests):
            num_slots = max((len(requests[place].prompt_ids) for place in places), default=0)
        if places:
            groups.append(Group(picks=self._pick(found.values()), num_slots=num_slots))
        # What is dropped must be gone before anything is copied.
        self._waves = []
        made = regroup(groups)
        self._waves = [
            _Wave(sequence_ids=ids, conversations=conversations)
            for (ids, _), conversations in zip(rest, made, strict=False)
        ]
        return places, made[-1] if places else None

    def _rest(self, asked: Collection[int], spare_slots: int) -> list[tuple[list[int], Group]]:
        """Return what is not asked for and fits, by its wave; the newest waves have the choice."""
        rest: list[tuple[list[int], Group]] = []
        for wave in reversed(self._waves):
            ids, group = wave.without(asked, spare_slots)
            if ids:
                rest.insert(0, (ids, group))
                spare_slots -= len(ids) * group.num_slots
        return rest

    def _pick(self, found: Collection[tuple[int, int]]) -> list[tuple[Conversations, list[int]]]:
        """Return the rows by their wave, all in ascending order."""
        rows: dict[int, list[int]] = {}
        for number, row in sorted(found):
            rows.setdefault(number, []).append(row)
        return [(self._waves[number].conversations, rows[number]) for number in rows]


def _extends(prompt_ids: Sequence[int], context: Sequence[int]) -> bool:
    return len(prompt_ids) > len(context) and list(prompt_ids[: len(context)]) == context
