"""The model update stage."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from earl_dispatch import Columns
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import AggregationFunction
from earl_trainer.algorithms.losses import LossFunction, LossInputs, LossSettings
from earl_trainer.experience.batching import pad, padding_mask, plan_micro_batches
from earl_trainer.learner.forward import score
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.types import RunFailedError

_MAX_BAD_UPDATES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """What is minimised."""

    loss: LossFunction
    settings: LossSettings
    aggregation: AggregationFunction
    temperature: float
    """The sampler's; log-probs are taken at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings:
    """How a batch is walked through."""

    num_minibatches: int
    """Optimizer updates per pass over the batch."""
    num_epochs: int
    """Passes over the batch."""
    max_microbatch_tokens: int
    """Padded tokens in one forward and backward pass; bounds memory, changes no gradient."""
    max_grad_norm: float


@final
class Learner:
    """Updates the model on a batch of samples.

    Non-finite gradients are dropped before they reach weights or moments; after five in a row the
    learner gives up, since every later update would be dropped too.

    Example:
        >>> optimizer = MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0)
        >>> learner = Learner(model, optimizer, objective, settings)
        >>> metrics = learner.update(columns, lr=1e-3, seed=0)
    """

    def __init__(
        self,
        model: PreTrainedModel,
        optimizer: MasterAdamW,
        objective: Objective,
        settings: UpdateSettings,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._objective = objective
        self._settings = settings
        self._num_bad_updates = 0

    def update(
        self,
        batch: Columns,
        *,
        lr: float,
        seed: int,
        on_minibatch: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:
        """Make `num_epochs` passes of `num_minibatches` updates each.

        Args:
            batch: Columns of `experience.samples`, with the log-probs that the loss looks at.
            lr: Learning rate of this step.
            seed: Shuffles the rows into mini-batches.
            on_minibatch: Called with tokens done and in all, for progress.

        Returns:
            Means over the applied updates of loss, grad_norm, entropy and the loss function's own
            metrics, and the number of updates skipped for non-finite gradients.

        Raises:
            RunFailedError: After five updates in a row with non-finite gradients.
        """
        rng = torch.Generator().manual_seed(seed)
        settings = self._settings
        total = batch.num_tokens * settings.num_epochs
        done = 0
        num_updates = 0
        applied: list[dict[str, float]] = []
        for _ in range(settings.num_epochs):
            order = torch.randperm(batch.num_rows, generator=rng)
            for rows in order.tensor_split(min(settings.num_minibatches, batch.num_rows)):
                minibatch = batch.select(rows)
                metrics = self.accumulate(minibatch)
                done += minibatch.num_tokens
                on_minibatch(done, total)
                num_updates += 1
                norm = self._apply(lr)
                if norm is not None:
                    applied.append({**metrics, "grad_norm": norm})
        names = applied[0] if applied else ()
        means = {name: sum(update[name] for update in applied) / len(applied) for name in names}
        return {**means, "skipped_updates": float(num_updates - len(applied))}

    def accumulate(self, minibatch: Columns) -> dict[str, float]:
        """Add the gradient of one mini-batch's loss to the parameters, without an update."""
        mask = minibatch.per_token["mask"]
        weights = self._objective.aggregation(mask, minibatch.lengths)
        weighted = replace(minibatch, per_token={**minibatch.per_token, "weights": weights})
        sums: dict[str, float] = {}
        for rows in plan_micro_batches(
            minibatch.lengths.tolist(), max_tokens=self._settings.max_microbatch_tokens
        ):
            for name, value in self._backward(weighted.select(rows)).items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def _backward(self, part: Columns) -> dict[str, float]:
        device = self._model.device
        present = padding_mask(part.lengths)
        token_ids = pad(part.per_token["token_ids"].long(), present).to(device)
        mask = pad(part.per_token["mask"], present).to(device)
        weights = pad(part.per_token["weights"], present).to(device)
        logprobs, entropy = score(
            self._model, token_ids, mask, temperature=self._objective.temperature
        )
        inputs = LossInputs(
            logprobs=logprobs,
            old_logprobs=_masked(part, "old_logprobs", present, mask),
            reference_logprobs=_masked(part, "reference_logprobs", present, mask),
            advantages=torch.where(mask, part.per_row["advantages"].to(device)[:, None], 0.0),
            mask=mask,
        )
        outputs = self._objective.loss(inputs, self._objective.settings)
        loss = (torch.where(mask, outputs.loss, 0.0) * weights).sum()
        loss.backward()
        self._optimizer.collect_gradients()
        token_metrics = {**outputs.metrics, "entropy": entropy}
        return {
            "loss": loss.item(),
            **{
                name: float((torch.where(mask, values, 0.0) * weights).sum())
                for name, values in token_metrics.items()
            },
        }

    def _apply(self, lr: float) -> float | None:
        """Make the update and return the gradient's norm, or None if it was not finite."""
        # The norm is looked at before the step: clipping by a NaN norm makes every gradient NaN.
        norm = self._optimizer.clip_gradients(self._settings.max_grad_norm)
        if math.isfinite(norm):
            self._num_bad_updates = 0
            self._optimizer.step(lr)
            return norm
        self._num_bad_updates += 1
        self._optimizer.drop_gradients()
        if self._num_bad_updates >= _MAX_BAD_UPDATES:
            raise RunFailedError(
                f"the gradient was not finite in {_MAX_BAD_UPDATES} updates in a row; "
                "lower the learning rate"
            )
        return None

    def state_dict(self) -> dict[str, Any]:  # Any: torch's own state dictionary
        """Return what the next update depends on, apart from the model's weights."""
        return {"optimizer": self._optimizer.state_dict(), "num_bad_updates": self._num_bad_updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # Any: torch's own state dictionary
        """Take over what `state_dict` returned."""
        self._optimizer.load_state_dict(state["optimizer"])
        self._num_bad_updates = state["num_bad_updates"]


def _masked(part: Columns, name: str, present: Tensor, mask: Tensor) -> Float[Tensor, "rows width"]:
    """A column as padded rows, 0 where the mask is False and where the column does not exist."""
    if name not in part.per_token:
        return torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    return torch.where(mask, pad(part.per_token[name], present).to(mask.device), 0.0)
