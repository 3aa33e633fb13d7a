"""Learning a reward model from pairs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from earl_dispatch import Columns
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid
from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import sequence_mean
from earl_trainer.experience.sequences import CHOSEN_TOKENS, sequence_lengths
from earl_trainer.learner.objective import WEIGHTS, Terms, single_rows
from earl_trainer.rewards.model import last_rewards


def bradley_terry(
    chosen: Float[Tensor, " pairs"],
    rejected: Float[Tensor, " pairs"],
    *,
    margin: float = 0.0,
    centring: float = 0.0,
) -> Float[Tensor, " pairs"]:
    """Minus log-probability that the better one is preferred, with rewards kept around 0.

    L = -log sigma(r_w - r_l - m) + c (r_w + r_l)^2: the likelihood of Bradley and Terry (1952), as
    InstructGPT has it (Ouyang et al., arXiv:2203.02155, eq. 1) with Llama 2's margin m (Touvron et
    al., arXiv:2307.09288, eq. 2), here one for all pairs. The likelihood leaves a constant open,
    which the second term fixes (Eisenstein et al., arXiv:2312.09244, section 2; their c is 0.01).

    Args:
        chosen: [pairs] rewards of the better ones.
        rejected: [pairs] of the others.
        margin: By how much the better one is to be ahead.
        centring: c.
    """
    ahead = chosen - rejected - margin
    return -logsigmoid(ahead) + centring * (chosen + rejected).square()


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BradleyTerryObjective:
    """The loss of a reward model; every pair is one row and counts alike."""

    margin: float
    centring: float

    def units(self, minibatch: Columns) -> Sequence[Sequence[int]]:
        """Return every row by itself: it holds both sides."""
        return single_rows(minibatch)

    def weigh(self, minibatch: Columns) -> tuple[Float[Tensor, " tokens"], Float[Tensor, ""]]:
        """Weigh pairs alike."""
        return sequence_mean(minibatch.per_token["mask"], minibatch.lengths, minibatch.per_row)

    def loss(self, model: PreTrainedModel, part: Columns) -> Terms:
        """Return the weighted sum of the losses of pairs, and how well these are told apart.

        The accuracy is that before the update: of pairs not learned from yet, where each comes
        once. Equal rewards count half.
        """
        # A row that stands in for none has a chosen side of no token, and no weight.
        ends = torch.stack([part.per_row[CHOSEN_TOKENS], part.lengths], dim=1)
        rewards = last_rewards(
            model,
            part.per_token["token_ids"].long().to(model.device),
            sequence_lengths(part),
            (part.offsets()[:, None] + ends - 1).clamp(min=0).flatten(),
        )
        chosen, rejected = rewards[0::2], rewards[1::2]
        rows = torch.arange(part.num_rows).repeat_interleave(part.lengths)
        weights = torch.zeros(part.num_rows).index_add(0, rows, part.per_token[WEIGHTS])
        weights = weights.to(rewards.device)
        losses = bradley_terry(chosen, rejected, margin=self.margin, centring=self.centring)
        ahead = (chosen - rejected).detach()
        reported = {
            "accuracy": 0.5 + 0.5 * ahead.sign(),
            "margin": ahead,
            "chosen_reward": chosen.detach(),
            "rejected_reward": rejected.detach(),
        }
        return Terms(
            loss=(losses * weights).sum(),
            metrics={name: float((each * weights).sum()) for name, each in reported.items()},
        )
