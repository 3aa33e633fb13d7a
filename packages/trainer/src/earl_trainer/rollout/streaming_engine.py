"""The embedded engine that never waits for the longest reply: requests join and leave each pass."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.models.attention import packed_logits
from earl_trainer.rollout.conversation_rows import Conversation, ConversationRows
from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.rollout.packed_rows import NewTokens, PackedRows
from earl_trainer.rollout.read_plan import Read, plan_reads
from earl_trainer.rollout.reply import Reply, extend_replies
from earl_trainer.rollout.waves import final_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLoad:
    """How busy an engine is, and how full."""

    num_running: int
    """Replies being generated."""
    num_waiting: int
    """Requests that wait for room, or for the next pass."""
    num_sequences_held: int
    """Conversations with a row, those being generated included."""
    resident_tokens: int
    """Tokens whose keys and values are held."""
    allocated_tokens: int
    """Slots there are, rows times slots of a row."""
    held_bytes: int
    """Of storage for keys and values."""


@final
class StreamingEngine:
    """Continuously batched decoding with a `transformers` model, interruptible by new weights.

    Every pass reads the new tokens of all rows without padding: one of each row that decodes, many
    of those whose prompts came in. Conversations keep their rows from turn to turn and pay for what
    is new only; equal first prompts are read once and copied. New weights may come in mid-reply:
    what has been emitted stays with its log-probs and versions, and the next passes read the
    contexts anew and go on.

    A reply is fixed by its request's seed and the weights of each token, whoever shares the batch.

    Lifecycle: `submit` and `advance`, again and again, `release` when an episode is over; or
    `generate`, which does this for requests that are all there. One thread calls all of it, except
    for `interrupt`.

    Args:
        model: In evaluation mode, with `use_attention` called for it.
        stop_ids: Tokens that end a reply.
        capacity_tokens: Slots for keys and values that may be allocated at once; requests for which
            there is no room wait, first come, first served. While rows are moved, one layer of them
            lies there twice, on top of the capacity.
        max_context_tokens: The longest context that is asked for, which every row then has slots
            for; where it is None or the capacity is less, rows grow as contexts need it.
        max_read_tokens: Prompt tokens that a pass reads; more wait for the next pass, while replies
            go on.
        keep_conversations: Whether a conversation's next turn finds what was read in the last.
        share_prefixes: Whether equal first prompts are read once.

    Example:
        >>> engine = StreamingEngine(model, stop_ids=frozenset({2}), capacity_tokens=1 << 20)
        >>> engine.submit(Request(sequence_id=0, prompt_ids=[1, 5], max_new_tokens=8,
        ...                       temperature=1.0, seed=7))
        >>> while not (ended := engine.advance()):
        ...     pass
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        stop_ids: frozenset[int],
        capacity_tokens: int,
        max_context_tokens: int | None = None,
        max_read_tokens: int = 8192,
        keep_conversations: bool = True,
        share_prefixes: bool = True,
    ) -> None:
        if max_context_tokens is not None and max_context_tokens < 1:
            raise ValueError(f"max_context_tokens must be at least 1, got {max_context_tokens}")
        if max_read_tokens < 1:
            raise ValueError(f"max_read_tokens must be at least 1, got {max_read_tokens}")
        self.capacity_tokens = capacity_tokens
        """Context tokens that can be resident at once."""
        self.tp = 1
        self.version = 0
        """Version of the weights now in use."""
        self._model = model
        self._stop_ids = stop_ids
        self._max_read_tokens = max_read_tokens
        self._keep_conversations = keep_conversations
        self._share_prefixes = share_prefixes
        self._interrupted = threading.Event()
        self._waiting: dict[int, Request] = {}
        self._rows = ConversationRows(
            capacity_tokens=capacity_tokens, max_context_tokens=max_context_tokens
        )

    @property
    def load(self) -> EngineLoad:
        """How busy and how full it is between two passes."""
        rooms = self._rows.rooms
        return EngineLoad(
            num_running=len(self._rows.running),
            num_waiting=len(self._waiting),
            num_sequences_held=len(self._rows.all),
            resident_tokens=self.resident_tokens,
            allocated_tokens=rooms.num_rows * rooms.num_slots if rooms.num_bytes else 0,
            held_bytes=rooms.num_bytes,
        )

    @property
    def resident_tokens(self) -> int:
        """Tokens whose keys and values are held."""
        return sum(each.num_held for each in self._rows.all)

    def submit(self, request: Request) -> None:
        """Queue a request; the next `advance` with room for it begins its reply.

        Raises:
            ValueError: If it is larger than a context may be, empty, or the sequence is still being
                answered.
        """
        if not request.prompt_ids or request.max_new_tokens < 1:
            raise ValueError(
                "a request needs a prompt and max_new_tokens of at least 1, got "
                f"{len(request.prompt_ids)} tokens and {request.max_new_tokens}"
            )
        num_tokens, longest_tokens = final_tokens(request), self._rows.longest_tokens
        if num_tokens > longest_tokens:
            raise ValueError(
                f"a context of {num_tokens} tokens does not fit: it may have {longest_tokens}"
            )
        if self._is_open(request.sequence_id):
            raise ValueError(f"sequence {request.sequence_id} is still being answered")
        self._waiting[request.sequence_id] = request
        self._rows.touch(request.sequence_id)

    @torch.no_grad()
    def advance(self) -> list[tuple[int, Completion]]:
        """Do one forward pass: begin what there is room for, and emit a token of every reply.

        Returns:
            (sequence_id, completion) of the replies that ended with it.
        """
        self._begin_replies()
        reads = plan_reads(
            self._rows,
            max_read_tokens=self._max_read_tokens,
            share_prefixes=self._share_prefixes,
        )
        if not reads:
            return []
        logits = self._read(reads)
        # Only now: what a failed pass leaves behind must be read again.
        last = [read for read in reads if read.is_last]
        for read in reads:
            read.conversation.num_held += len(read.ids)
        for read in last:
            self._rows.share(read.conversation, read.heirs)
        places = [place for place, read in enumerate(last) for _ in read.readers]
        return self._emit([one for read in last for one in read.readers], logits[places])

    def release(self, sequence_id: int) -> None:
        """Free the row of a conversation whose episode is over.

        Raises:
            ValueError: If it is still being answered.
        """
        if self._is_open(sequence_id):
            raise ValueError(f"sequence {sequence_id} is still being answered: cancel it first")
        self._rows.drop(sequence_id)

    def cancel(self, sequence_id: int) -> Completion:
        """End a reply, running or waiting, as far as it got; its conversation can go on from there.

        Raises:
            ValueError: If the sequence is not being answered.
        """
        if not self._is_open(sequence_id):
            raise ValueError(f"sequence {sequence_id} is not being answered")
        if sequence_id in self._waiting:
            reply = Reply(request=self._waiting.pop(sequence_id))
            return reply.completion(FinishReason.ABORT)
        return self._end(self._rows[sequence_id], FinishReason.ABORT)

    def load_weights(self, version: int) -> None:
        """Label the shared weights as `version`, also in mid-reply.

        Keys and values of older weights are dropped; tokens, log-probs and versions emitted stay.
        """
        self.version = version
        self._rows.forget()

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order; what an interrupt cuts ends with ABORT.

        Raises:
            ValueError: If replies are being generated already, or a request cannot be answered.
        """
        if num_open := len(self._waiting) + len(self._rows.running):
            raise ValueError(f"generate answers its requests alone: {num_open} others run or wait")
        self._interrupted.clear()
        ended: dict[int, Completion] = {}
        try:
            for request in requests:
                self.submit(request)
            while len(ended) < len(requests):
                ended |= self.advance()
                if self._interrupted.is_set():
                    break
        finally:
            running = [each.sequence_id for each in self._rows.running]
            ended |= {number: self.cancel(number) for number in (*running, *self._waiting)}
        return [ended[request.sequence_id] for request in requests]

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token, each reply as far as it got."""
        self._interrupted.set()

    def resize(self, tp: int) -> None:
        """Accept only the one rank that this process is.

        Raises:
            ValueError: If `tp` is not 1.
        """
        if tp != 1:
            raise ValueError(f"the embedded engine is one process: tp must be 1, got {tp}")

    def close(self) -> None:
        """Forget all that is held and asked."""
        self._waiting.clear()
        self._rows.clear()

    def _is_open(self, sequence_id: int) -> bool:
        return sequence_id in self._waiting or self._rows.is_running(sequence_id)

    def _begin_replies(self) -> None:
        """Begin replies in the order of their requests, as far as there is room."""
        while self._waiting:
            sequence_id, request = next(iter(self._waiting.items()))
            if not self._rows.begin(request, waiting=self._waiting.keys()):
                break
            del self._waiting[sequence_id]

    def _read(self, reads: Sequence[Read]) -> Float[Tensor, "last vocab"]:
        """Do the forward pass; return logits after the contexts that are read to their end."""
        parts = [
            NewTokens(row=read.conversation.row, num_held=read.conversation.num_held, ids=read.ids)
            for read in reads
        ]
        device = self._model.device
        packed = PackedRows(self._rows.rooms, parts, device=device)
        last = packed.last[[read.is_last for read in reads]]
        logits = packed_logits(
            self._model,
            packed.token_ids,
            packed.position_ids,
            packed,
            keep=torch.from_numpy(last).to(device),
        )
        if not self._rows.rooms.num_bytes:
            raise ValueError("the model does not attend to packed rows: call use_attention for it")
        return logits

    def _emit(
        self, conversations: Sequence[Conversation], logits: Float[Tensor, "replies vocab"]
    ) -> list[tuple[int, Completion]]:
        """Add a token to replies; end those that are over."""
        if not conversations:
            return []
        replies = [each.reply for each in conversations if each.reply is not None]
        extend_replies(replies, logits, version=self.version)
        ended: list[tuple[int, Completion]] = []
        for each, reply in zip(conversations, replies, strict=True):
            each.tokens.append(reply.ids[-1])
            reason = reply.finish_reason(self._stop_ids)
            if reason is not None:
                ended.append((each.sequence_id, self._end(each, reason)))
        return ended

    def _end(self, conversation: Conversation, reason: FinishReason) -> Completion:
        assert conversation.reply is not None
        completion = conversation.reply.completion(reason)
        conversation.reply = None
        if not self._keep_conversations:
            self._rows.drop(conversation.sequence_id)
        return completion
