"""ALGORITHMS: the name of an algorithm -> its parts. A new algorithm is a new entry."""

from dataclasses import dataclass

from earl_trainer.algorithms.advantages import (
    BaselineFunction,
    batch_mean,
    constant_one,
    greedy_reply,
    group_mean,
    leave_one_out,
    reward_itself,
    running_mean,
)
from earl_trainer.algorithms.losses import (
    LossFunction,
    clipped_policy_loss,
    clipped_weight_loss,
    negative_log_likelihood,
    policy_gradient_loss,
    sequence_policy_loss,
)
from earl_trainer.algorithms.trajectories import TrajectoryFunction, gae, reward_to_go, vtrace


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """What distinguishes one algorithm from another; the loop is the same for all.

    An episode's reward is compared with a baseline, put on its last trained token, or in parts on
    those of its replies, summed or bootstrapped backwards along the trajectory, normalised, and
    enters the loss of every token. Baselines are affine in rewards.
    """

    name: str
    baseline: BaselineFunction
    loss: LossFunction
    needs_old_logprobs: bool
    """Its loss looks at the log-probs from before the step's first update."""
    along: TrajectoryFunction = reward_to_go
    """From rewards of tokens to advantages of tokens."""
    normalisation: str = "none"
    """Unless the run says otherwise: a name of `NORMALISATIONS`."""
    aggregation: str = "token-mean"
    """Unless the run says otherwise: a name of `AGGREGATIONS`."""
    clip_low: float = 0.2
    """Unless the run says otherwise."""
    clip_high: float = 0.2
    """Unless the run says otherwise."""
    dual_clip: float = 0.0
    """Unless the run says otherwise."""
    overlong_share: float = 0.0
    """Unless the run says otherwise: share of the context that is punished softly."""
    needs_groups: bool = False
    """It compares the episodes of a group, so groups need two members at least."""
    varied_group_rounds: int = 0
    """Unless the run says otherwise: times that groups are played until their rewards vary, those
    without variance replaced by others; 0 keeps them."""
    needs_greedy: bool = False
    """Every group has an episode more, decoded greedily and not trained."""
    needs_critic: bool = False
    """A critic says what to expect in front of every token."""
    corrects_itself: bool = False
    """Its advantages account for older weights, so that its loss must not."""
    reinforces: bool = True
    """It learns from rewards, and not by imitation."""

    @property
    def compares_groups(self) -> bool:
        """Whether equal rewards of a group have advantage 0, so that only their spread counts."""
        return self.needs_groups or self.needs_greedy


NORMALISATIONS = ("none", "group", "batch")
"""Advantages as they are, over the std of their group's rewards, or whitened over the step."""

ALGORITHMS: dict[str, Algorithm] = {
    algorithm.name: algorithm
    for algorithm in (
        # DeepSeekMath, arXiv:2402.03300, with DAPO's sum over tokens.
        Algorithm(
            name="grpo",
            baseline=group_mean,
            normalisation="group",
            loss=clipped_policy_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        # Liu et al., arXiv:2503.20783: neither the std nor the length divides.
        Algorithm(
            name="dr-grpo",
            baseline=group_mean,
            aggregation="sequence-sum-constant",
            loss=clipped_policy_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        # Yu et al., arXiv:2503.14476.
        Algorithm(
            name="dapo",
            baseline=group_mean,
            normalisation="group",
            clip_high=0.28,
            overlong_share=0.2,
            loss=clipped_policy_loss,
            needs_groups=True,
            varied_group_rounds=3,
            needs_old_logprobs=True,
        ),
        # Zheng et al., arXiv:2507.18071, section 5.1 for the clips.
        Algorithm(
            name="gspo",
            baseline=group_mean,
            normalisation="group",
            aggregation="sequence-mean",
            clip_low=3e-4,
            clip_high=4e-4,
            loss=sequence_policy_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        # MiniMax-M1, arXiv:2506.13585: no bound below; the one above is that of ScaleRL
        # (arXiv:2510.13786), a weight of 5.
        Algorithm(
            name="cispo",
            baseline=group_mean,
            normalisation="group",
            clip_low=1.0,
            clip_high=4.0,
            loss=clipped_weight_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        # Ahmadian et al., arXiv:2402.14740; the clip only acts from the second update of a step on.
        Algorithm(
            name="rloo",
            baseline=leave_one_out,
            loss=clipped_policy_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        # Li et al., arXiv:2310.10505.
        Algorithm(
            name="remax",
            baseline=greedy_reply,
            loss=clipped_policy_loss,
            needs_greedy=True,
            needs_old_logprobs=True,
        ),
        # Williams, 1992.
        Algorithm(
            name="reinforce",
            baseline=batch_mean,
            loss=policy_gradient_loss,
            needs_old_logprobs=False,
        ),
        # Hu et al., arXiv:2501.03262, and its variant with the group's mean.
        Algorithm(
            name="reinforce++",
            baseline=reward_itself,
            normalisation="batch",
            loss=clipped_policy_loss,
            needs_old_logprobs=True,
        ),
        Algorithm(
            name="reinforce++-baseline",
            baseline=group_mean,
            normalisation="batch",
            loss=clipped_policy_loss,
            needs_groups=True,
            needs_old_logprobs=True,
        ),
        # SPIRAL, arXiv:2506.24119.
        Algorithm(
            name="rae",
            baseline=running_mean,
            loss=policy_gradient_loss,
            needs_old_logprobs=False,
        ),
        # Schulman et al., arXiv:1707.06347, with the dual clip of Ye et al., arXiv:1912.09729.
        Algorithm(
            name="ppo",
            baseline=reward_itself,
            along=gae,
            normalisation="batch",
            dual_clip=3.0,
            loss=clipped_policy_loss,
            needs_critic=True,
            needs_old_logprobs=True,
        ),
        # IMPALA, arXiv:1802.01561.
        Algorithm(
            name="vtrace",
            baseline=reward_itself,
            along=vtrace,
            loss=policy_gradient_loss,
            needs_critic=True,
            corrects_itself=True,
            needs_old_logprobs=False,
        ),
        Algorithm(
            name="sft",
            baseline=constant_one,
            loss=negative_log_likelihood,
            needs_old_logprobs=False,
            reinforces=False,
        ),
    )
}
