"""ALGORITHMS: the name of an algorithm -> its parts. A new algorithm is a new entry."""

from dataclasses import dataclass

from earl_trainer.algorithms.advantages import (
    AdvantageFunction,
    constant_one,
    group_normalised,
)
from earl_trainer.algorithms.losses import (
    LossFunction,
    clipped_policy_loss,
    negative_log_likelihood,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """What distinguishes one algorithm from another; the loop is the same for all."""

    name: str
    advantages: AdvantageFunction
    loss: LossFunction
    needs_groups: bool
    """Its advantages compare the episodes of a group, so groups need two members at least."""
    needs_old_logprobs: bool
    """Its loss looks at the log-probs from before the step's first update."""


ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm(
            name="grpo",
            advantages=group_normalised,
            loss=clipped_policy_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        Algorithm(
            name="sft",
            advantages=constant_one,
            loss=negative_log_likelihood,
            needs_groups=False,
            needs_old_logprobs=False,
        ),
    )
}
