"""Which conversation lies in which row, and what makes room for the next."""

import heapq
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import final

from earl_trainer.rollout.engine import Request
from earl_trainer.rollout.kv_rooms import KeyValueRooms
from earl_trainer.rollout.reply import Reply
from earl_trainer.rollout.waves import final_tokens

_SIZES_PER_DOUBLING = 2


@dataclass(slots=True, kw_only=True)
class Conversation:
    """A context in its row."""

    sequence_id: int
    row: int
    first_prompt: tuple[int, ...]
    tokens: list[int]
    """The context, emitted tokens included."""
    num_held: int = 0
    """Its first tokens, whose keys and values lie in the row."""
    reply: Reply | None = None
    """Being generated."""

    @property
    def num_slots(self) -> int:
        """Slots that it may come to need as it is."""
        return self.num_held if self.reply is None else final_tokens(self.reply.request)

    @property
    def unread(self) -> Sequence[int]:
        """What the model has to read before it can go on."""
        return self.tokens[self.num_held :]

    @property
    def has_only_prompt(self) -> bool:
        """Whether nothing has been emitted yet, in its first turn."""
        return len(self.tokens) == len(self.first_prompt)

    def is_extended_by(self, prompt_ids: Sequence[int]) -> bool:
        """Whether a prompt begins with all that is held."""
        held = self.tokens[: self.num_held]
        return len(prompt_ids) > len(held) and list(prompt_ids[: len(held)]) == held


@final
class ConversationRows:
    """Conversations in rows, from the one whose last reply was begun or asked for longest ago on.

    Rows times slots allocated never exceed the capacity. Where a reply finds no room, conversations
    that no reply is being generated in are dropped: first those that nobody asks for, the least
    recently used before others, then the last in the queue.

    Args:
        capacity_tokens: Slots that may be allocated at once.
        max_context_tokens: Slots of each row; where it is None or the capacity is less, rows have
            as many as contexts come to need, and these are moved into longer ones now and then.
    """

    def __init__(self, *, capacity_tokens: int, max_context_tokens: int | None) -> None:
        self.rooms = KeyValueRooms()
        longest_tokens = capacity_tokens if max_context_tokens is None else max_context_tokens
        self.longest_tokens = min(longest_tokens, capacity_tokens)
        """The most that a context can have."""
        self._capacity_tokens = capacity_tokens
        self._fixed_slots = max_context_tokens if longest_tokens == self.longest_tokens else None
        self._conversations: dict[int, Conversation] = {}
        self._free: list[int] = []

    @property
    def all(self) -> list[Conversation]:
        """In the order in which they were used."""
        return list(self._conversations.values())

    @property
    def running(self) -> list[Conversation]:
        """Those with a reply being generated, in the order in which these were begun."""
        return [each for each in self._conversations.values() if each.reply is not None]

    def __getitem__(self, sequence_id: int) -> Conversation:
        """Return a conversation that has a row."""
        return self._conversations[sequence_id]

    def is_running(self, sequence_id: int) -> bool:
        """Whether a reply is being generated in a conversation."""
        conversation = self._conversations.get(sequence_id)
        return conversation is not None and conversation.reply is not None

    def touch(self, sequence_id: int) -> None:
        """Count a conversation, if it has a row, as used now."""
        if sequence_id in self._conversations:
            self._conversations[sequence_id] = self._conversations.pop(sequence_id)

    def drop(self, sequence_id: int) -> None:
        """Free the row of a conversation, if it has one."""
        conversation = self._conversations.pop(sequence_id, None)
        if conversation is not None:
            heapq.heappush(self._free, conversation.row)

    def share(
        self, source: Conversation, heirs: Sequence[Conversation], *, num_tokens: int | None = None
    ) -> None:
        """Let others hold what a conversation holds, as far as their contexts are the same."""
        num_tokens = source.num_held if num_tokens is None else num_tokens
        self.rooms.copy(source.row, [each.row for each in heirs], num_tokens=num_tokens)
        for each in heirs:
            each.num_held = num_tokens

    def clear(self) -> None:
        """Drop everything, replies being generated included."""
        for sequence_id in list(self._conversations):
            self.drop(sequence_id)
        self.rooms.clear()

    def forget(self) -> None:
        """Drop all keys and values; only conversations with a reply being generated keep a row."""
        for conversation in self.all:
            if conversation.reply is None:
                self.drop(conversation.sequence_id)
            conversation.num_held = 0
        self.rooms.clear()

    def begin(self, request: Request, *, waiting: Set[int]) -> bool:
        """Begin a reply, in the row of the conversation that it continues or in a new one.

        Args:
            request: What to answer.
            waiting: Sequence ids of all requests that wait, in order; this one's among them.

        Returns:
            Whether there is room for it.
        """
        own = self._conversations.get(request.sequence_id)
        if own is not None and not own.is_extended_by(request.prompt_ids):
            self.drop(request.sequence_id)
            own = None
        if not self._make_room(request, own, waiting):
            return False
        prompt = tuple(request.prompt_ids)
        if own is None:
            own = Conversation(
                sequence_id=request.sequence_id,
                row=heapq.heappop(self._free),
                first_prompt=prompt,
                tokens=[],
            )
            self._conversations[request.sequence_id] = own
        if own.num_held < len(own.first_prompt):
            # What was asked for first was never read to its end.
            own.first_prompt = prompt
        own.tokens = list(prompt)
        own.reply = Reply(request=request)
        self.touch(request.sequence_id)
        return True

    def _make_room(self, request: Request, own: Conversation | None, waiting: Set[int]) -> bool:
        """Provide a row that is long enough; without moving anything if that can be."""
        needed = final_tokens(request)
        if self._fits(needed, own):
            return True
        running = self.running
        least_rows = len(running) + 1
        least_slots = self._fixed_slots or max([needed, *(each.num_slots for each in running)])
        if least_rows * least_slots > self._capacity_tokens:
            return False
        victims = self._victims(own, waiting)
        while not self._fits(needed, own):
            num_rows = len(self._conversations) + (own is None)
            num_slots = max(least_slots, self.rooms.num_slots)
            if num_rows * num_slots <= self._capacity_tokens:
                self._reshape(num_rows, num_slots, waiting)
            elif victims:
                self.drop(victims.pop(0))
            else:
                self._reshape(num_rows, least_slots, waiting)
        return True

    def _fits(self, num_slots: int, own: Conversation | None) -> bool:
        return num_slots <= self.rooms.num_slots and (own is not None or bool(self._free))

    def _victims(self, own: Conversation | None, waiting: Set[int]) -> list[int]:
        """Return what may be dropped, in this order."""
        place = {sequence_id: number for number, sequence_id in enumerate(waiting)}
        idle = [each.sequence_id for each in self.all if each.reply is None and each is not own]
        return sorted(idle, key=lambda sequence_id: -place.get(sequence_id, len(place)))

    def _reshape(self, num_rows: int, num_slots: int, waiting: Set[int]) -> None:
        """Move all conversations into rooms with at least so many rows and slots."""
        if num_slots != self.rooms.num_slots:
            # Rooms that were exact would be moved again for the next, slightly longer context.
            most_slots = self._capacity_tokens // num_rows
            num_slots = self._fixed_slots or max(num_slots, min(_round_up(num_slots), most_slots))
        wanted_rows = max(len(self._conversations.keys() | waiting), num_rows)
        if wanted_rows > self.rooms.num_rows:
            wanted_rows = max(wanted_rows, self.rooms.num_rows * 3 // 2)
        num_rows = min(max(wanted_rows, self.rooms.num_rows), self._capacity_tokens // num_slots)
        keep = sorted(self.all, key=lambda each: each.row)
        self.rooms.reshape(num_rows, num_slots, keep=[(each.row, each.num_held) for each in keep])
        for row, conversation in enumerate(keep):
            conversation.row = row
        self._free = list(range(len(keep), num_rows))


def _round_up(num_slots: int) -> int:
    """Return the next of two sizes per doubling, so that rooms are seldom moved to grow."""
    step = max(1, 2 ** (num_slots.bit_length() - 1) // _SIZES_PER_DOUBLING)
    return -(-num_slots // step) * step
