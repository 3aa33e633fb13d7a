"""The model update stage."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from earl_dispatch import Columns
from jaxtyping import Int64
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.experience.packing import Bins, PackingFunction, pack_fewest_first
from earl_trainer.learner.objective import TOTAL_WEIGHT, WEIGHTS, Objective
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.models.attention import use_attention
from earl_trainer.models.heap import HeapTrimmer
from earl_trainer.types import RunFailedError
from earl_trainer.workers.group import ALONE, Group

_MAX_BAD_UPDATES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings:
    """How an update is computed."""

    max_microbatch_tokens: int
    """Tokens in one forward and backward pass; bounds memory, changes no gradient."""
    max_grad_norm: float
    max_kl: float = math.inf
    """KL divergence of a mini-batch's policy to that before the step, in nats per token, beyond
    which neither it nor those after it make an update: PPO's early stop (OpenAI Spinning Up,
    `target_kl`), looked at before the update and not after it."""
    packing: PackingFunction = pack_fewest_first
    """How rows share these passes; changes no gradient either."""


@final
class Learner:
    """Updates the model on a batch of samples.

    Of several workers that learn each has a learner, a copy of the model and a part of every
    mini-batch. All make equally many passes through the model. Gradients are added up over them
    before they are clipped and applied, so that all copies stay the same, and are those of one
    worker with all the rows, up to the order of the sum.

    Non-finite gradients are dropped before they reach weights or moments; after five in a row the
    learner gives up, since every later update would be dropped too.

    Example:
        >>> optimizer = MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0)
        >>> learner = Learner(model, optimizer, objective, settings)
        >>> metrics = learner.update(columns, [torch.arange(columns.num_rows)], lr=1e-3)
    """

    def __init__(
        self,
        model: PreTrainedModel,
        optimizer: MasterAdamW,
        objective: Objective,
        settings: UpdateSettings,
        workers: Group = ALONE,
    ) -> None:
        use_attention(model)
        self._model = model
        self._optimizer = optimizer
        self._objective = objective
        self._settings = settings
        self._workers = workers
        self._heap = HeapTrimmer()
        self._num_bad_updates = 0

    def update(
        self,
        batch: Columns,
        minibatches: Sequence[Int64[Tensor, "_"]],
        *,
        lr: float,
        on_minibatch: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:
        """Make one update per mini-batch.

        Args:
            batch: Columns of `experience.samples`, with the log-probs that the loss looks at: rows
                of this worker.
            minibatches: For each update this worker's rows of it; equally many on all workers.
            lr: Learning rate of this step.
            on_minibatch: Called with tokens done and in all, of this worker, for progress.

        Returns:
            Means over the applied updates of loss, grad_norm, entropy and the loss function's own
            metrics; the number of updates skipped for non-finite gradients, left out for `max_kl`,
            and made with a gradient that was scaled down; the same on all workers.

        Raises:
            RunFailedError: After five updates in a row with non-finite gradients.
        """
        total = sum(int(batch.lengths[rows].sum()) for rows in minibatches)
        done = 0
        num_tried = 0
        applied: list[dict[str, float]] = []
        for rows in minibatches:
            minibatch = batch.select(rows)
            self._heap.give_back()
            metrics = _means(_add_up(self._workers.all_gather(self.accumulate(minibatch))))
            done += minibatch.num_tokens
            on_minibatch(done, total)
            if metrics.get("kl", 0.0) > self._settings.max_kl:
                self._optimizer.drop_gradients()
                break
            num_tried += 1
            norm = self._apply(lr)
            if norm is not None:
                applied.append({**metrics, "grad_norm": norm})
        names = applied[0] if applied else ()
        means = {name: sum(update[name] for update in applied) / len(applied) for name in names}
        max_norm = self._settings.max_grad_norm
        return {
            **means,
            "skipped_updates": float(num_tried - len(applied)),
            "left_out_updates": float(len(minibatches) - num_tried),
            "clipped_updates": float(sum(each["grad_norm"] > max_norm for each in applied)),
        }

    def accumulate(self, minibatch: Columns) -> dict[str, float]:
        """Add the gradient of one mini-batch's loss to the parameters, without an update.

        Args:
            minibatch: This worker's rows, maybe none.

        Returns:
            This worker's part of the loss, the metrics and `TOTAL_WEIGHT`; none if no worker has a
            row.

        Raises:
            ValueError: If a row is longer than `max_microbatch_tokens`.
        """
        weights, total = self._objective.weigh(minibatch)
        self._workers.add_up(total)
        weights = weights / torch.where(total > 0, total, 1.0)
        weighted = replace(minibatch, per_token={**minibatch.per_token, WEIGHTS: weights})
        sums: dict[str, float] = {}
        units = self._objective.units(minibatch)
        lengths = minibatch.lengths.tolist()
        for bin_ in self._pack([sum(lengths[row] for row in unit) for unit in units]):
            rows = [row for unit in bin_ for row in units[unit]]
            part = weighted.select(rows) if rows else _one_idle_token(weighted)
            for name, value in self._backward(part).items():
                sums[name] = sums.get(name, 0.0) + value
        return sums

    def _pack(self, lengths: Sequence[int]) -> Bins:
        """Deal this worker's units of rows into as many micro-batches as every other worker has.

        What shards a model over workers exchanges tensors within each pass: it would wait forever
        for a pass that one of them does not make.
        """
        num_bins = 0
        while True:
            bins = self._settings.packing(
                lengths,
                capacity_tokens=self._settings.max_microbatch_tokens,
                min_bins=num_bins,
            )
            counts = self._workers.all_gather(len(bins))
            num_bins = max(counts)
            if min(counts) == num_bins:
                return bins

    def _backward(self, part: Columns) -> dict[str, float]:
        terms = self._objective.loss(self._model, part)
        terms.loss.backward()
        self._optimizer.collect_gradients()
        return {"loss": terms.loss.item(), **terms.metrics}

    def _apply(self, lr: float) -> float | None:
        """Make the update and return the gradient's norm, or None if it was not finite."""
        self._optimizer.add_up_gradients(self._workers)
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


@final
class AbsentLearner:
    """The update stage of a worker that does not learn: it is given the weights afterwards."""

    def update(
        self,
        batch: Columns,
        minibatches: Sequence[Int64[Tensor, "_"]],
        *,
        lr: float,
        on_minibatch: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:
        """Do nothing, and have no figures."""
        del batch, minibatches, lr, on_minibatch
        return {}


def _add_up(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    """Add up what the workers have of an update."""
    return {name: sum(part[name] for part in parts) for name in parts[0]}


def _means(sums: dict[str, float]) -> dict[str, float]:
    """Make the metrics of a mini-batch means; the loss stays what was minimised."""
    total = sums.get(TOTAL_WEIGHT) or 1.0
    return {
        name: value if name == "loss" else value / total
        for name, value in sums.items()
        if name != TOTAL_WEIGHT
    }


def _one_idle_token(columns: Columns) -> Columns:
    """A row that trains nothing, for a worker with fewer rows than it makes passes."""
    return Columns(
        lengths=torch.ones(1, dtype=torch.int64),
        per_token={name: column.new_zeros(1) for name, column in columns.per_token.items()},
        per_row={name: column.new_zeros(1) for name, column in columns.per_row.items()},
    )
