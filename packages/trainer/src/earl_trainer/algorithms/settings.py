"""What a run's configuration and its algorithm's own values come to."""

from dataclasses import dataclass, field

from earl_trainer.algorithms.config import AdvantageConfig, AlgorithmConfig
from earl_trainer.algorithms.importance import WeightRules
from earl_trainer.algorithms.kl import KL_ESTIMATORS, KlController, KlEstimator
from earl_trainer.algorithms.losses import LossSettings
from earl_trainer.algorithms.off_policy import Correction
from earl_trainer.algorithms.shaping import RewardShaping
from earl_trainer.algorithms.table import Algorithm
from earl_trainer.algorithms.trajectories import Discounts
from earl_trainer.config_fields import AUTO

_FIXED_WEIGHT = KlController(target=0.0, horizon=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class KlPenalty:
    """A KL divergence that is taken off the rewards of tokens."""

    coefficient: float
    """beta before the first step; 0 for none."""
    estimate: KlEstimator = KL_ESTIMATORS["k1"]
    controller: KlController = _FIXED_WEIGHT


_NO_PENALTY = KlPenalty(coefficient=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageSettings:
    """The constants of the way from rewards of episodes to advantages of tokens."""

    normalisation: str = "none"
    """A name of `NORMALISATIONS`."""
    shaping: RewardShaping = field(default_factory=RewardShaping)
    discounts: Discounts = field(default_factory=Discounts)
    baseline_decay: float = 0.95
    """Of the running mean of a seat's rewards, per episode."""
    penalty: KlPenalty = _NO_PENALTY
    bootstraps: bool = False
    """Whether what the critic expects behind the last token of a cut episode counts."""


def loss_settings(
    config: AlgorithmConfig,
    algorithm: Algorithm,
    *,
    correction: Correction,
    kl_coefficient: float,
) -> LossSettings:
    """Return the constants of an algorithm's loss.

    Args:
        config: Of the run.
        algorithm: Whose own values hold where the run has none.
        correction: For tokens of older weights.
        kl_coefficient: Of the phase.
    """
    return LossSettings(
        clip_low=_or(config.clip_low, algorithm.clip_low),
        clip_high=_or(config.clip_high, algorithm.clip_high),
        dual_clip=_or(config.dual_clip, algorithm.dual_clip),
        kl_coefficient=kl_coefficient if config.kl_in == "loss" else 0.0,
        kl_estimator="k3" if config.kl_estimator == AUTO else config.kl_estimator,
        entropy_coefficient=config.entropy_coefficient if algorithm.reinforces else 0.0,
        correction=correction,
        weights=WeightRules(
            level=config.weight_level,
            max_weight=config.max_weight,
            min_weight=config.min_weight,
            on_larger=config.on_larger_weight,
        ),
    )


def advantage_settings(
    config: AlgorithmConfig,
    rules: AdvantageConfig,
    algorithm: Algorithm,
    *,
    kl_coefficient: float,
    max_tokens: int,
    bootstraps: bool,
) -> AdvantageSettings:
    """Return the constants of an algorithm's advantages.

    Args:
        config: Of the run.
        rules: Of the run, likewise.
        algorithm: Whose own values hold where the run has none.
        kl_coefficient: Of the phase.
        max_tokens: Longest context.
        bootstraps: Whether cut episodes count what the critic expects of their rest.
    """
    if not algorithm.reinforces:
        return AdvantageSettings()  # What is imitated is no matter of rewards.
    estimator = "k1" if config.kl_estimator == AUTO else config.kl_estimator
    return AdvantageSettings(
        normalisation=rules.normalisation or algorithm.normalisation,
        shaping=RewardShaping(
            scale=rules.reward_scale,
            max_abs=rules.reward_clip,
            max_tokens=max_tokens,
            overlong_share=_or(rules.overlong_share, algorithm.overlong_share),
        ),
        discounts=Discounts(
            gamma=rules.discount,
            trace_decay=rules.trace_decay,
            max_trace=rules.max_trace,
            by_turn=rules.step == "turn",
        ),
        baseline_decay=rules.baseline_decay,
        penalty=KlPenalty(
            coefficient=kl_coefficient if config.kl_in == "reward" else 0.0,
            estimate=KL_ESTIMATORS[estimator],
            controller=KlController(target=config.kl_target, horizon=config.kl_horizon),
        ),
        bootstraps=bootstraps,
    )


def _or(value: float | None, own: float) -> float:
    return own if value is None else value
