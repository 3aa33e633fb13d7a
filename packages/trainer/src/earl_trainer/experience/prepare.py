"""The experience preparation stage: log-probs that the loss compares with."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, final

import torch
from earl_dispatch import Columns, Schema
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.experience.by_pack import compute_by_pack
from earl_trainer.experience.sequences import sequence_lengths
from earl_trainer.learner.forward import score
from earl_trainer.models.attention import use_attention

_SCORED = Schema(per_token=(("scored", torch.float32),), per_row=())


@final
class Preparer:
    """Adds a column of log-probs per scoring model to the samples.

    Old log-probs are computed with the weights before the step's first update and with the
    learner's own numerics, not taken from the engine: with a learning rate of 0 the ratio is 1.

    Args:
        scorers: Name of the column -> the model that computes it; none if the loss needs none.
        temperature: The sampler's.
        max_tokens: Tokens in one forward pass.
        finish: Makes of the scored samples what the loss looks at; None if that is all of them.

    Example:
        >>> preparer = Preparer({"old_logprobs": model}, temperature=1.0, max_tokens=8192)
        >>> columns = preparer.prepare(columns)
    """

    def __init__(
        self,
        scorers: Mapping[str, PreTrainedModel],
        *,
        temperature: float,
        max_tokens: int,
        finish: Callable[[Columns], Columns] | None = None,
    ) -> None:
        self._scorers = scorers
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._finish = finish
        self.figures: dict[str, float] = {}
        """Nothing to tell: the degree is that of the process."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return nothing: one step does not depend on another."""
        return {}

    def restore(self, values: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Do nothing, likewise."""

    def prepare(self, columns: Columns) -> Columns:
        """Score every trained token with every model; 0 at other tokens."""
        scored = {
            name: score_columns(
                model, columns, temperature=self._temperature, max_tokens=self._max_tokens
            )
            for name, model in self._scorers.items()
        }
        columns = replace(columns, per_token={**columns.per_token, **scored})
        return columns if self._finish is None else self._finish(columns)


@torch.no_grad()
def score_columns(
    model: PreTrainedModel, columns: Columns, *, temperature: float, max_tokens: int
) -> Float[Tensor, " tokens"]:
    """Return the log-prob of every trained token, and 0 at other tokens.

    Args:
        model: That scores, or what a rank holds of it.
        columns: With `token_ids` and `mask` per token.
        temperature: The sampler's.
        max_tokens: Tokens in one forward pass.

    Raises:
        ValueError: If a row is longer than `max_tokens`.
    """
    use_attention(model)

    def compute(part: Columns) -> Columns:
        logprobs, _ = score(
            model,
            part.per_token["token_ids"].long().to(model.device),
            part.per_token["mask"].to(model.device),
            sequence_lengths(part),
            temperature=temperature,
        )
        return Columns(lengths=part.lengths, per_token={"scored": logprobs.cpu()}, per_row={})

    scored = compute_by_pack(columns, compute, _SCORED, max_tokens=max_tokens)
    return scored.per_token["scored"]
