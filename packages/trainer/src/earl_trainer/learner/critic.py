"""The critic: a copy of the policy's model that says what reward to expect, and how it learns."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from earl_dispatch import Columns
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import token_mean
from earl_trainer.algorithms.value_loss import ValueInputs, clipped_value_loss
from earl_trainer.learner.learner import Learner
from earl_trainer.learner.objective import WEIGHTS, Terms, masked, single_rows
from earl_trainer.models.attention import packed_logits, use_attention
from earl_trainer.models.packed_sequences import PackedSequences


def make_critic(model: PreTrainedModel) -> PreTrainedModel:
    """Copy a causal language model and let it say one number per token instead of logits.

    The new output layer is 0, so that an untrained critic expects nothing.
    """
    critic = copy.deepcopy(model)
    output = critic.get_output_embeddings()
    assert output is not None, "a language model has an output layer"
    weight = next(output.parameters())
    head = nn.Linear(weight.shape[1], 1, bias=False, device=weight.device, dtype=weight.dtype)
    nn.init.zeros_(head.weight)
    critic.set_output_embeddings(head)
    critic.config.tie_word_embeddings = False
    use_attention(critic)
    return critic


def expect(
    critic: PreTrainedModel,
    token_ids: Int64[Tensor, " tokens"],
    mask: Bool[Tensor, " tokens"],
    lengths: Int64[Tensor, " rows"],
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, " rows"]]:
    """Return what the critic expects in front of each trained token, and behind each row.

    The value of a token is that of the state in which it was emitted: what the critic says at the
    token before. No temperature divides it.

    Args:
        critic: Of `make_critic`.
        token_ids: [tokens] of all rows one after the other.
        mask: [tokens], True where a token is trained.
        lengths: [rows] tokens of each.

    Returns:
        Values [tokens], 0 where the mask is False, and values [rows].
    """
    packing = PackedSequences(lengths.tolist())
    ends = (lengths.cumsum(0) - 1).to(mask.device)
    kept = torch.cat([mask[1:], mask.new_zeros(1)])
    kept[ends] = True
    places = kept.nonzero()[:, 0]
    said = packed_logits(
        critic, token_ids, packing.position_ids.to(mask.device), packing, keep=places
    )[:, 0].float()
    everywhere = torch.zeros(mask.shape, device=mask.device).masked_scatter(kept, said)
    in_front = torch.cat([everywhere.new_zeros(1), everywhere[:-1]])
    return torch.where(mask, in_front, 0.0), everywhere[ends]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ValueObjective:
    """The error of the critic, a mean over trained tokens."""

    clip: float
    """How far a value may move within a step before its error stops to pull; 0 for any distance."""

    def units(self, minibatch: Columns) -> Sequence[Sequence[int]]:
        """Return every row by itself."""
        return single_rows(minibatch)

    def weigh(self, minibatch: Columns) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
        """Weigh all trained tokens alike."""
        return token_mean(minibatch.per_token["mask"], minibatch.lengths, minibatch.per_row)

    def loss(self, model: PreTrainedModel, part: Columns) -> Terms:
        """Return the weighted sum of the errors of tokens."""
        mask = part.per_token["mask"].to(model.device)
        weights = part.per_token[WEIGHTS].to(model.device)
        token_ids = part.per_token["token_ids"].long().to(model.device)
        values, _ = expect(model, token_ids, mask, part.lengths)
        returns = masked(part, "returns", mask)
        error, clipped = clipped_value_loss(
            ValueInputs(values=values, old_values=masked(part, "values", mask), returns=returns),
            clip=self.clip,
        )
        return Terms(
            loss=(error * weights).sum(),
            metrics={
                "clip_fraction": float((clipped * weights).sum()),
                "mean": float((values.detach() * weights).sum()),
                "mean_return": float((returns * weights).sum()),
            },
        )


@final
class ActorCritic:
    """The update stage of a policy and its critic: each has a learner, both see the same rows.

    Args:
        policy: Learns first; the critic's targets are fixed by then.
        critic: Learns at a rate in proportion to the policy's.
        model: The critic's, which is saved here as no one else does.
        lr_ratio: The critic's learning rate in multiples of the policy's.
    """

    def __init__(
        self, policy: Learner, critic: Learner, *, model: PreTrainedModel, lr_ratio: float
    ) -> None:
        self._policy = policy
        self._critic = critic
        self._model = model
        self._lr_ratio = lr_ratio

    def update(
        self,
        batch: Columns,
        minibatches: Sequence[Int64[Tensor, "_"]],
        *,
        lr: float,
        on_minibatch: Callable[[int, int], None] = lambda done, total: None,
    ) -> dict[str, float]:
        """Make one update of each per mini-batch.

        Returns:
            The metrics of `Learner.update`, those of the critic as `value_...`.
        """
        of_policy = self._policy.update(batch, minibatches, lr=lr, on_minibatch=on_minibatch)
        of_critic = self._critic.update(
            batch, minibatches, lr=self._lr_ratio * lr, on_minibatch=on_minibatch
        )
        return {**of_policy, **{f"value_{name}": value for name, value in of_critic.items()}}

    def state_dict(self) -> dict[str, Any]:  # Any: torch's own state dictionary
        """Return what the next update depends on, apart from the policy's weights."""
        return {
            "policy": self._policy.state_dict(),
            "critic": self._critic.state_dict(),
            "critic_weights": self._model.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:  # Any: torch's own state dictionary
        """Take over what `state_dict` returned."""
        self._policy.load_state_dict(state["policy"])
        self._model.load_state_dict(state["critic_weights"])
        self._critic.load_state_dict(state["critic"])
