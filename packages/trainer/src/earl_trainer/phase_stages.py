"""The stages of a phase: what prepares, estimates and updates, as the configuration has it."""

import copy
import math

from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import find_aggregation
from earl_trainer.algorithms.settings import advantage_settings, loss_settings
from earl_trainer.config import RunConfig
from earl_trainer.experience.estimator import Estimator, Untouched
from earl_trainer.experience.packing import PACKINGS
from earl_trainer.experience.prepare import Preparer
from earl_trainer.experience.valued_prepare import PreparationStage, ValuedPreparer
from earl_trainer.learner.critic import ActorCritic, ValueObjective
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.objective import Objective, PolicyObjective
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.phases import Phase
from earl_trainer.preference.baseline import POLICY_LOGPROBS, add_baseline
from earl_trainer.preference.losses import PreferenceSettings
from earl_trainer.preference.methods import Source
from earl_trainer.rewards.learning import REWARD_MODEL, make_objective
from earl_trainer.workers.group import ALONE, Group


def make_preparer(
    phase: Phase,
    config: RunConfig,
    model: PreTrainedModel,
    reference: PreTrainedModel | None,
    workers: Group = ALONE,
) -> Preparer:
    """Make the preparation stage: it scores with the models whose log-probs the loss needs.

    Args:
        phase: That prepares.
        config: The run.
        model: The policy's.
        reference: That it is compared with, where it is.
        workers: That prepare.
    """
    scorers: dict[str, PreTrainedModel] = {}
    judges = phase.method is not None and phase.method.source is Source.JUDGED
    if judges:
        scorers[POLICY_LOGPROBS] = model
    if phase.needs_old_logprobs:
        scorers["old_logprobs"] = model
    if reference is not None:
        scorers["reference_logprobs"] = reference
    return Preparer(
        scorers,
        temperature=config.rollout.temperature,
        max_tokens=config.learner.max_microbatch_tokens,
        finish=(lambda columns: add_baseline(columns, workers)) if judges else None,
    )


def make_estimator(
    phase: Phase, config: RunConfig, *, num_seats: int, workers: Group = ALONE
) -> Estimator | Untouched:
    """Make the stage that turns rewards into advantages, where rewards are learned from.

    Args:
        phase: That learns.
        config: The run.
        num_seats: Of the game.
        workers: That have episodes.
    """
    if phase.method is not None and not phase.method.imitates_games(config.preference.data):
        return Untouched()
    return Estimator(
        phase.algorithm,
        advantage_settings(
            config.algorithm,
            config.advantage,
            phase.algorithm,
            kl_coefficient=phase.kl_coefficient,
            max_tokens=config.rollout.max_context_tokens,
            bootstraps=config.reward.truncation == "bootstrap",
        ),
        num_seats=num_seats,
        workers=workers,
    )


def make_learner(
    phase: Phase,
    config: RunConfig,
    model: PreTrainedModel,
    critic: PreTrainedModel | None = None,
    workers: Group = ALONE,
) -> Learner | ActorCritic:
    """Make the update stage, with optimizers that have seen nothing yet.

    Args:
        phase: That learns.
        config: The run.
        model: The policy's.
        critic: The critic's, where the algorithm has one.
        workers: That learn.
    """
    policy = _learner_of(
        config,
        model,
        _objective_of(phase, config),
        workers,
    )
    if critic is None:
        return policy
    objective = ValueObjective(clip=config.critic.value_clip)
    return ActorCritic(
        policy,
        _learner_of(config, critic, objective, workers),
        model=critic,
        lr_ratio=config.critic.lr_ratio,
    )


def _objective_of(phase: Phase, config: RunConfig) -> Objective:
    if phase.name == REWARD_MODEL:
        return make_objective(config.reward_model)
    if phase.method is not None and not phase.method.imitates:
        rules = config.preference
        settings = PreferenceSettings(
            beta=rules.beta,
            margin=rules.margin,
            label_smoothing=rules.label_smoothing,
            desirable_weight=rules.desirable_weight,
            undesirable_weight=rules.undesirable_weight,
        )
        return phase.method.objective(settings, temperature=config.rollout.temperature)
    return PolicyObjective(
        function=phase.algorithm.loss,
        settings=loss_settings(
            config.algorithm,
            phase.algorithm,
            correction=phase.correction,
            kl_coefficient=phase.kl_coefficient,
        ),
        aggregation=find_aggregation(
            config.algorithm.aggregation or phase.algorithm.aggregation,
            max_tokens=config.rollout.max_context_tokens,
        ),
        temperature=config.rollout.temperature,
    )


def add_values(
    config: RunConfig, preparer: PreparationStage, critic: PreTrainedModel | None
) -> PreparationStage:
    """Let the critic, where there is one, take part in a preparation stage."""
    if critic is None:
        return preparer
    return ValuedPreparer(preparer, critic, max_tokens=config.learner.max_microbatch_tokens)


def _learner_of(
    config: RunConfig, model: PreTrainedModel, objective: Objective, workers: Group
) -> Learner:
    learner = config.learner
    return Learner(
        model,
        MasterAdamW(model, betas=(learner.beta1, learner.beta2), weight_decay=learner.weight_decay),
        objective,
        UpdateSettings(
            max_microbatch_tokens=learner.max_microbatch_tokens,
            max_grad_norm=learner.max_grad_norm or math.inf,
            max_kl=config.guards.max_update_kl or math.inf,
            packing=PACKINGS[learner.packing],
        ),
        workers,
    )


def freeze_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Copy a model as a reference that is never trained."""
    frozen = copy.deepcopy(model)
    frozen.requires_grad_(requires_grad=False)
    return frozen
