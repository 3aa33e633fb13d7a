"""A reply while it grows."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Float64
from torch import Tensor

from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.rollout.sampling import sample_tokens
from earl_trainer.seeding import uniforms


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What has been emitted to answer a request, each token with what it was emitted by."""

    request: Request
    ids: list[int] = field(default_factory=list[int])
    logprobs: list[float] = field(default_factory=list[float])
    versions: list[int] = field(default_factory=list[int])

    def finish_reason(self, stop_ids: Collection[int]) -> FinishReason | None:
        """Say why the reply is over; None while it is not.

        Args:
            stop_ids: Of the engine.
        """
        if self.ids and self.ids[-1] in self.request.stop_ids_or(stop_ids):
            return FinishReason.STOP
        if len(self.ids) >= self.request.max_new_tokens:
            return FinishReason.LENGTH
        return None

    def completion(self, finish_reason: FinishReason) -> Completion:
        """Return the reply as it stands."""
        return Completion(
            ids=tuple(self.ids),
            logprobs=tuple(self.logprobs),
            versions=tuple(self.versions),
            finish_reason=finish_reason,
        )


def extend_replies(
    replies: Sequence[Reply], logits: Float[Tensor, "replies vocab"], *, version: int
) -> None:
    """Sample the next token of each reply, fixed by its seed and its number in the reply.

    Args:
        replies: None of them over.
        logits: [replies, vocab] after what each has so far.
        version: Of the weights.
    """
    temperatures = np.array([reply.request.temperature for reply in replies], dtype=np.float64)
    ids, logprobs = sample_tokens(
        logits, temperatures=temperatures, uniforms=_draw(replies, temperatures)
    )
    for reply, token_id, logprob in zip(replies, ids.tolist(), logprobs.tolist(), strict=True):
        reply.ids.append(token_id)
        reply.logprobs.append(logprob)
        reply.versions.append(version)


def _draw(
    replies: Sequence[Reply], temperatures: Float64[np.ndarray, " replies"]
) -> Float64[np.ndarray, " replies"]:
    """Draw the uniform number that belongs to each reply's next token; 0 where none is needed."""
    seeds = np.array([reply.request.seed for reply in replies], dtype=np.uint64)
    counts = np.array([len(reply.ids) for reply in replies])
    draws = np.zeros(len(replies))
    for count in set(counts[temperatures > 0.0].tolist()):
        draws[counts == count] = uniforms(seeds[counts == count], count)
    return draws
