"""What is minimised: the one place where a loss meets the model and a batch's columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, final, runtime_checkable

import torch
from earl_dispatch import Columns
from jaxtyping import Bool, Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import AggregationFunction
from earl_trainer.algorithms.losses import LossFunction, LossInputs, LossSettings
from earl_trainer.learner.forward import score

WEIGHTS = "weights"
"""The column per token that the learner adds: a token's share of the loss of the mini-batch."""

TOTAL_WEIGHT = "total_weight"
"""The metric by which a mini-batch's others but the loss are divided, so that they are means even
where the weights of tokens do not add up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """A micro-batch's part of the loss of its mini-batch."""

    loss: Float[Tensor, ""]
    """With gradient; parts add up to the loss."""
    metrics: dict[str, float]
    """Weighted, so that parts add up to means over the mini-batch, or to `TOTAL_WEIGHT` times the
    means where there is such a metric."""


@runtime_checkable
class Objective(Protocol):
    """A loss over a mini-batch that is a sum over micro-batches."""

    def units(self, minibatch: Columns) -> Sequence[Sequence[int]]:
        """Return which rows must share a pass through the model; every row is in one unit.

        Args:
            minibatch: Rows of this worker.
        """
        ...

    def weigh(self, minibatch: Columns) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
        """Return a weight per token, and what all are divided by once workers have added it up.

        Args:
            minibatch: Rows of this worker, maybe none.
        """
        ...

    def loss(self, model: PreTrainedModel, part: Columns) -> Terms:
        """Pass a micro-batch through the model.

        Args:
            model: That is trained.
            part: Whole units, with their weights as `weights` per token; or one token that has
                none, for a worker with nothing left to do.
        """
        ...


def single_rows(minibatch: Columns) -> list[list[int]]:
    """Return units of one row each, for losses that compare no rows."""
    return [[row] for row in range(minibatch.num_rows)]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyObjective:
    """A loss per token of what the policy emitted, summed by an aggregation."""

    function: LossFunction
    settings: LossSettings
    aggregation: AggregationFunction
    temperature: float
    """The sampler's; log-probs are taken at it."""

    def units(self, minibatch: Columns) -> Sequence[Sequence[int]]:
        """Return every row by itself."""
        return single_rows(minibatch)

    def weigh(self, minibatch: Columns) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
        """Return the aggregation's weights and total."""
        return self.aggregation(minibatch.per_token["mask"], minibatch.lengths, minibatch.per_row)

    def loss(self, model: PreTrainedModel, part: Columns) -> Terms:
        """Return the weighted sum of the losses of tokens, and likewise of what is reported."""
        mask = part.per_token["mask"].to(model.device)
        weights = part.per_token[WEIGHTS].to(model.device)
        logprobs, entropy = score(
            model,
            part.per_token["token_ids"].long().to(model.device),
            mask,
            part.lengths,
            temperature=self.temperature,
        )
        rows = torch.arange(part.num_rows).repeat_interleave(part.lengths).to(model.device)
        outputs = self.function(
            LossInputs(
                logprobs=logprobs,
                entropy=entropy,
                old_logprobs=masked(part, "old_logprobs", mask),
                behaviour_logprobs=masked(part, "rollout_logprobs", mask),
                staleness=masked(part, "staleness", mask),
                reference_logprobs=masked(part, "reference_logprobs", mask),
                advantages=masked(part, "advantages", mask),
                rows=rows,
                mask=mask,
            ),
            self.settings,
        )
        loss = (torch.where(mask, outputs.loss, 0.0) * weights).sum()
        reported = {**outputs.metrics, "entropy": entropy.detach()}
        return Terms(
            loss=loss,
            metrics={
                name: float((torch.where(mask, values, 0.0) * weights).sum())
                for name, values in reported.items()
            }
            | {TOTAL_WEIGHT: float(weights.sum())},
        )


def masked(part: Columns, name: str, mask: Bool[Tensor, " tokens"]) -> Float[Tensor, " tokens"]:
    """Return a column, 0 where the mask is False and where the column does not exist."""
    if name not in part.per_token:
        return torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    return torch.where(mask, part.per_token[name].to(mask.device).float(), 0.0)
