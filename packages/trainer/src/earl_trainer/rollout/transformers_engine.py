"""The embedded engine: generates in this process with the very weights that the learner trains."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.rollout.held import HeldConversations
from earl_trainer.rollout.kv_cache import Conversations, Group, regroup
from earl_trainer.rollout.sampling import sample_tokens
from earl_trainer.rollout.waves import final_tokens, plan_waves
from earl_trainer.seeding import uniforms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A part of a wave whose prompts have been read."""

    conversations: Conversations
    rows: Sequence[int]
    """Of each request."""
    logits: Float[Tensor, "requests vocab"]
    """After the last token of each prompt."""


@final
class TransformersEngine:
    """Batched decoding with a `transformers` model; conversations keep their keys and values.

    A request that continues a conversation is prefilled with the new tokens only, whichever batches
    came in between; equal first prompts are prefilled once. `load_weights` drops everything held,
    since keys and values of older weights are stale.

    The capacity bounds what is really allocated: rows times slots per row, over all conversations
    held, of which every row of a wave gets what its longest may grow to. What was not asked for
    longest is dropped first; more requests than fit are answered in waves. While rows are moved,
    one layer's keys and values at a time lie there twice, on top of the capacity.

    Args:
        model: In evaluation mode; its keys and values may be a rank's share of the heads.
        stop_ids: Tokens that end a reply.
        capacity_tokens: Slots that may be held at once.
        agree: Asked before each decoding step with whether this engine was interrupted; the step is
            left out if it says so. Engines that compute together agree here to stop together.

    Example:
        >>> engine = TransformersEngine(model, stop_ids=frozenset({2}), capacity_tokens=1 << 20)
        >>> reply, = engine.generate([Request(sequence_id=0, prompt_ids=[1, 5], max_new_tokens=8,
        ...                                   temperature=1.0, seed=7)])
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        stop_ids: frozenset[int],
        capacity_tokens: int,
        agree: Callable[[bool], bool] = lambda interrupted: interrupted,
    ) -> None:
        self._model = model
        self._stop_ids = stop_ids
        self._capacity_tokens = capacity_tokens
        self._agree = agree
        self._version = 0
        self._interrupted = threading.Event()
        self._held = HeldConversations()
        self._peak_held_bytes = 0
        self._kv_bytes_per_token: int | None = None

    @property
    def version(self) -> int:
        """Version of the weights now in use."""
        return self._version

    @property
    def tp(self) -> int:
        """Always 1."""
        return 1

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that can be resident at once."""
        return self._capacity_tokens

    @property
    def held_bytes(self) -> int:
        """Keys and values held between two calls, in bytes of storage."""
        return self._held.num_bytes

    @property
    def peak_held_bytes(self) -> int:
        """The most that was held at one time since the last `load_weights`."""
        return self._peak_held_bytes

    @property
    def kv_bytes_per_token(self) -> int | None:
        """Bytes of one slot as the model lays it out, on this rank; None before its first pass."""
        return self._kv_bytes_per_token

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token, each reply as far as it got."""
        self._interrupted.set()

    def load_weights(self, version: int) -> None:
        """Label the shared weights as `version` and forget the caches of older ones."""
        self._version = version
        self._held.clear()
        self._peak_held_bytes = 0

    def resize(self, tp: int) -> None:
        """Accept only the one rank that this process is.

        Raises:
            ValueError: If `tp` is not 1.
        """
        if tp != 1:
            raise ValueError(f"the embedded engine is one process: tp must be 1, got {tp}")

    def close(self) -> None:
        """Forget what is held."""
        self._held.clear()

    @torch.no_grad()
    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order, in as many waves as the capacity asks for.

        Raises:
            ValueError: If one request alone is larger than the capacity.
        """
        self._interrupted.clear()
        if not requests:
            return []
        completions: dict[int, Completion] = {}
        for wave in self._plan(requests):
            replies = self._generate_wave([requests[place] for place in wave])
            completions |= zip(wave, replies, strict=True)
        return [completions[place] for place in range(len(requests))]

    def _plan(self, requests: Sequence[Request]) -> list[list[int]]:
        """Plan the waves, what is held first: it would be dropped for the others."""
        num_slots = list(map(final_tokens, requests))
        return plan_waves(num_slots, self._capacity_tokens, first=self._held.find(requests))

    def _generate_wave(self, requests: list[Request]) -> list[Completion]:
        places, conversations, logits = self._prefill(requests)
        rows = [requests[place] for place in places]
        completions = dict(zip(places, self._decode(rows, conversations, logits), strict=True))
        # Only now: whatever a failed pass leaves behind must not be continued.
        self._held.keep([request.sequence_id for request in rows], conversations)
        return [completions[place] for place in range(len(requests))]

    def _decode(
        self,
        requests: Sequence[Request],
        conversations: Conversations,
        logits: Float[Tensor, "rows vocab"],
    ) -> list[Completion]:
        seeds = np.array([request.seed for request in requests], dtype=np.uint64)
        temperatures = np.array([request.temperature for request in requests], dtype=np.float64)
        replies: list[list[int]] = [[] for _ in requests]
        logprobs: list[list[float]] = [[] for _ in requests]
        for count in range(max(request.max_new_tokens for request in requests)):
            drawn, drawn_logprobs = sample_tokens(
                logits, temperatures=temperatures, uniforms=uniforms(seeds, count)
            )
            ids, values = drawn.tolist(), drawn_logprobs.tolist()
            fed: list[list[int]] = [[] for _ in requests]
            for row, request in enumerate(requests):
                if len(replies[row]) == count and not self._ended(request, replies[row]):
                    replies[row].append(ids[row])
                    logprobs[row].append(values[row])
                    if not self._ended(request, replies[row]):
                        fed[row] = [ids[row]]
            if not any(fed) or self._agree(self._interrupted.is_set()):
                break
            logits = self._forward(conversations, fed)
        return [
            self._completion(request, replies[row], logprobs[row])
            for row, request in enumerate(requests)
        ]

    def _ended(self, request: Request, reply: list[int]) -> bool:
        return len(reply) >= request.max_new_tokens or self._stopped(request, reply)

    def _stopped(self, request: Request, reply: list[int]) -> bool:
        return bool(reply) and reply[-1] in request.stop_ids_or(self._stop_ids)

    def _completion(self, request: Request, reply: list[int], logprobs: list[float]) -> Completion:
        if self._stopped(request, reply):
            reason = FinishReason.STOP
        elif len(reply) >= request.max_new_tokens:
            reason = FinishReason.LENGTH
        else:
            reason = FinishReason.ABORT
        return Completion(
            ids=reply,
            logprobs=logprobs,
            versions=[self._version] * len(reply),
            finish_reason=reason,
        )

    def _prefill(
        self, requests: Sequence[Request]
    ) -> tuple[list[int], Conversations, Float[Tensor, "rows vocab"]]:
        """Read what is new in every request into one set of rows with room for the replies.

        Returns:
            The place of each row's request, the rows, and the logits after their last tokens.
        """
        num_slots = max(map(final_tokens, requests))
        spare_slots = self._capacity_tokens - len(requests) * num_slots
        continued, taken = self._held.take(requests, num_slots=num_slots, spare_slots=spare_slots)
        fresh = sorted(set(range(len(requests))) - set(continued))
        parts: list[_Read] = []
        if taken is not None:
            parts.append(self._go_on(taken, [requests[place].prompt_ids for place in continued]))
        if fresh:
            prompts = [requests[place].prompt_ids for place in fresh]
            parts.append(self._begin(prompts, num_slots=0 if continued else num_slots))
        self._note(*(part.conversations for part in parts))
        picks = [(part.conversations, part.rows) for part in parts]
        (joined,) = regroup([Group(picks=picks, num_slots=num_slots)])
        self._note(joined)
        logits = [part.logits for part in parts]
        return continued + fresh, joined, logits[0] if len(logits) == 1 else torch.cat(logits)

    def _go_on(self, taken: Conversations, prompts: Sequence[Sequence[int]]) -> _Read:
        """Read what prompts add to the contexts that they continue."""
        suffixes = [
            prompt[len(context) :] for prompt, context in zip(prompts, taken.contexts, strict=True)
        ]
        logits = self._forward(taken, suffixes)
        return _Read(conversations=taken, rows=range(len(prompts)), logits=logits)

    def _begin(self, prompts: Sequence[Sequence[int]], *, num_slots: int) -> _Read:
        """Read whole prompts, equal ones once; with room for `num_slots` each if all differ."""
        distinct: dict[tuple[int, ...], int] = {}
        rows = [distinct.setdefault(tuple(prompt), len(distinct)) for prompt in prompts]
        longest = max(map(len, distinct))
        conversations = Conversations(
            len(distinct),
            num_slots=max(num_slots, longest) if len(distinct) == len(prompts) else longest,
            device=self._model.device,
        )
        logits = self._forward(conversations, list(distinct))
        return _Read(conversations=conversations, rows=rows, logits=logits[rows])

    def _note(self, *running: Conversations) -> None:
        """Measure what is held now that these run as well."""
        num_bytes = [conversations.num_bytes for conversations in running]
        self._peak_held_bytes = max(self._peak_held_bytes, self.held_bytes + sum(num_bytes))
        self._kv_bytes_per_token = num_bytes[0] // running[0].num_slots_held

    def _forward(
        self, conversations: Conversations, new_ids: Sequence[Sequence[int]]
    ) -> Float[Tensor, "rows vocab"]:
        ids, positions, mask = conversations.prepare(new_ids)
        output = self._model(
            input_ids=ids,
            position_ids=positions,
            attention_mask=mask,
            past_key_values=conversations.cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1]
