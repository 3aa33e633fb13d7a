"""The embedded engine: generates in this process with the very weights that the learner trains."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.rollout.kv_cache import Conversations
from earl_trainer.rollout.sampling import sample_tokens
from earl_trainer.seeding import uniforms


def plan_waves(requests: Sequence[Request], capacity_tokens: int) -> list[range]:
    """Split requests, in order, into waves whose contexts fit at once.

    Args:
        requests: Each may grow to its prompt plus `max_new_tokens`.
        capacity_tokens: What may be resident at once.

    Returns:
        Ranges of indices that cover all requests.

    Raises:
        ValueError: If one request alone is larger than the capacity.
    """
    waves: list[range] = []
    start, resident = 0, 0
    for index, request in enumerate(requests):
        peak = len(request.prompt_ids) + request.max_new_tokens
        if peak > capacity_tokens:
            raise ValueError(
                f"a context of {peak} tokens does not fit the capacity of {capacity_tokens} tokens"
            )
        if resident + peak > capacity_tokens:
            waves.append(range(start, index))
            start, resident = index, 0
        resident += peak
    waves.append(range(start, len(requests)))
    return waves


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Conversations that were last asked for together."""

    sequence_ids: Sequence[int]
    """Of each row."""
    conversations: Conversations


def _extends(prompt_ids: Sequence[int], context: Sequence[int]) -> bool:
    return len(prompt_ids) > len(context) and list(prompt_ids[: len(context)]) == context


@final
class TransformersEngine:
    """Batched decoding with a `transformers` model; conversations keep their keys and values.

    A request that continues a conversation is prefilled with the new tokens only, whichever batches
    came in between; equal first prompts are prefilled once. What is held and what is asked for stay
    within the capacity: conversations that were not asked for longest are dropped first.
    `load_weights` drops all of them, since keys and values of older weights are stale.

    Example:
        >>> engine = TransformersEngine(model, stop_ids=frozenset({2}), capacity_tokens=1 << 20)
        >>> reply, = engine.generate([Request(sequence_id=0, prompt_ids=[1, 5], max_new_tokens=8,
        ...                                   temperature=1.0, seed=7)])
    """

    def __init__(
        self, model: PreTrainedModel, *, stop_ids: frozenset[int], capacity_tokens: int
    ) -> None:
        self._model = model
        self._stop_ids = stop_ids
        self._capacity_tokens = capacity_tokens
        self._version = 0
        self._interrupted = threading.Event()
        self._held: list[_Held] = []

    @property
    def version(self) -> int:
        """Version of the weights now in use."""
        return self._version

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that can be resident at once."""
        return self._capacity_tokens

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token, each reply as far as it got."""
        self._interrupted.set()

    def load_weights(self, version: int) -> None:
        """Label the shared weights as `version` and forget the caches of older ones."""
        self._version = version
        self._held = []

    def resize(self, tp: int) -> None:
        """Accept only the one rank that this process is.

        Raises:
            ValueError: If `tp` is not 1.
        """
        if tp != 1:
            raise ValueError(f"the embedded engine is one process: tp must be 1, got {tp}")

    @torch.no_grad()
    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order, in as many waves as the capacity asks for.

        Raises:
            ValueError: If one request alone is larger than the capacity.
        """
        self._interrupted.clear()
        if not requests:
            return []
        completions: list[Completion] = []
        for wave in plan_waves(requests, self._capacity_tokens):
            completions.extend(self._generate_wave([requests[index] for index in wave]))
        return completions

    def _generate_wave(self, requests: list[Request]) -> list[Completion]:
        conversations, logits = self._prefill(requests)
        ids = [request.sequence_id for request in requests]
        self._held.append(_Held(sequence_ids=ids, conversations=conversations))
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
            if not any(fed) or self._interrupted.is_set():
                break
            logits = self._forward(conversations, fed)
        return [
            self._completion(request, replies[row], logprobs[row])
            for row, request in enumerate(requests)
        ]

    def _ended(self, request: Request, reply: list[int]) -> bool:
        return len(reply) >= request.max_new_tokens or bool(reply and reply[-1] in self._stop_ids)

    def _completion(self, request: Request, reply: list[int], logprobs: list[float]) -> Completion:
        if reply and reply[-1] in self._stop_ids:
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
        self, requests: list[Request]
    ) -> tuple[Conversations, Float[Tensor, "rows vocab"]]:
        """Read what is new in every request, each set of conversations that are held by itself."""
        taken, missing = self._take(requests)
        self._make_room(requests)
        places = [place for places, _ in taken for place in places] + missing
        parts: list[tuple[Conversations, Float[Tensor, "rows vocab"]]] = []
        for own, held in taken:
            suffixes = [
                list(requests[place].prompt_ids)[len(context) :]
                for place, context in zip(own, held.contexts, strict=True)
            ]
            parts.append((held, self._forward(held, suffixes)))
        if missing:
            parts.append(self._begin([requests[place] for place in missing]))
        if len(parts) == 1:
            return parts[0]
        order = [places.index(place) for place in range(len(requests))]
        joined = Conversations.join([conversations for conversations, _ in parts])
        joined.select(order)
        return joined, torch.cat([logits for _, logits in parts])[order]

    def _take(
        self, requests: list[Request]
    ) -> tuple[list[tuple[list[int], Conversations]], list[int]]:
        """Take what the requests continue out of what is held; what they do not continue is kept.

        Returns:
            For every set that is continued the requests' places and their conversations, and the
            places of the requests that continue nothing.
        """
        asked = {request.sequence_id: place for place, request in enumerate(requests)}
        taken: list[tuple[list[int], Conversations]] = []
        kept: list[_Held] = []
        for held in self._held:
            rows = {
                asked[sequence_id]: row
                for row, sequence_id in enumerate(held.sequence_ids)
                if sequence_id in asked
                and _extends(
                    requests[asked[sequence_id]].prompt_ids, held.conversations.contexts[row]
                )
            }
            rest = [row for row, number in enumerate(held.sequence_ids) if number not in asked]
            if rest and len(rest) < len(held.sequence_ids):
                ids = [held.sequence_ids[row] for row in rest]
                kept.append(_Held(sequence_ids=ids, conversations=held.conversations.copy(rest)))
            elif rest:
                kept.append(held)
            if rows:
                places = sorted(rows)
                held.conversations.select([rows[place] for place in places])
                taken.append((places, held.conversations))
        self._held = kept
        continued = {place for places, _ in taken for place in places}
        return taken, [place for place in range(len(requests)) if place not in continued]

    def _make_room(self, requests: list[Request]) -> None:
        needed = sum(len(request.prompt_ids) + request.max_new_tokens for request in requests)
        spare = self._capacity_tokens - needed
        while self._held and sum(held.conversations.num_tokens for held in self._held) > spare:
            del self._held[0]

    def _begin(self, requests: list[Request]) -> tuple[Conversations, Float[Tensor, "rows vocab"]]:
        """Prefill whole prompts, equal ones once."""
        distinct: dict[tuple[int, ...], int] = {}
        rows = [
            distinct.setdefault(tuple(request.prompt_ids), len(distinct)) for request in requests
        ]
        conversations = Conversations(len(distinct), self._model.device)
        logits = self._forward(conversations, [list(prompt) for prompt in distinct])
        conversations.select(rows)
        return conversations, logits[torch.tensor(rows, device=logits.device)]

    def _forward(
        self, conversations: Conversations, new_ids: list[list[int]]
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
