"""The preparation stage of a run on the ranks that generate."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from earl_selector import (
    Deployment,
    DeviceSpec,
    ModelShape,
    ScoringMemory,
    SelectorPolicy,
)
from transformers import PreTrainedModel

from earl_trainer.config import RunConfig
from earl_trainer.experience.rank_prepare import RankPreparer
from earl_trainer.experience.scoring_profile import find_table, measure_scoring, with_table
from earl_trainer.parallel.tp_plan import divides_vocabulary
from earl_trainer.phases import Phase
from earl_trainer.profiling.choice import NONE
from earl_trainer.profiling.subject import subject_of
from earl_trainer.rollout.engine import Engine

PROFILE_FILE: Final = "prepare_profile.json"
"""The table that the stage goes by, in the run's folder."""


def make_scoring_policy(
    config: RunConfig,
    model: PreTrainedModel,
    degrees: tuple[int, ...],
    *,
    num_models: int,
    num_responses: int = 1,
) -> SelectorPolicy:
    """Make what chooses the degree of the preparation stage, which then goes back to the rollout's.

    Args:
        config: The run.
        model: The learner's.
        degrees: Of the ranks.
        num_models: That score, all of them on every rank.
        num_responses: Rows of a step.

    Raises:
        ValueError: If no degree holds a pass over one context.
    """
    rules, shape = config.selector, ModelShape.from_config(model.config.to_dict())
    try:
        return SelectorPolicy(
            memory=ScoringMemory(
                shape=shape,
                device=DeviceSpec.cpu(rules.memory_bytes),
                bytes_per_parameter=model.dtype.itemsize,
                utilisation=1.0,
                num_models=num_models,
                splits_vocabulary=divides_vocabulary(shape.vocab_size, rules.tp_degrees),
            ),
            degrees=degrees,
            num_devices=rules.num_devices,
            max_context_tokens=config.rollout.max_context_tokens,
            num_responses=num_responses,
            deployment=Deployment.SHARING,
            returns=True,
        )
    except ValueError as error:
        raise ValueError(f"selector.prepare_on ranks: {error}") from error


def make_rank_preparer(
    config: RunConfig,
    model: PreTrainedModel,
    engine: Engine,
    phase: Phase,
    *,
    degrees: tuple[int, ...],
    reference: PreTrainedModel | None,
    folder: Path,
    note: Callable[[str], None],
) -> RankPreparer:
    """Make the preparation stage on the engine's ranks; measures how fast they score, if need be.

    The table lies in the run's folder, so that a resumed run decides alike.

    Args:
        config: The run.
        model: The learner's.
        engine: With the ranks, which have the learner's weights.
        phase: Whose loss is prepared.
        degrees: Of the engine.
        reference: The policy from before the phase, where the loss needs it.
        folder: Of the run.
        note: Is told in one line of changes of degree.
    """
    from earl_trainer.parallel.engine_rank import POLICY, REFERENCE
    from earl_trainer.rollout.parallel_engine import ParallelEngine

    assert isinstance(engine, ParallelEngine)
    roles: dict[str, str] = {}
    if phase.needs_old_logprobs:
        roles["old_logprobs"] = POLICY
    if reference is not None:
        roles["reference_logprobs"] = REFERENCE
        engine.load_reference(reference)
    policy = make_scoring_policy(
        config, model, degrees, num_models=max(1, len(roles)), num_responses=phase.num_episodes
    )
    if roles and config.selector.profile != NONE and len(policy.usable_degrees) > 1:
        subject = subject_of(
            model,
            memory_bytes=config.selector.memory_bytes,
            engine=f"scoring, {config.selector.num_devices} ranks, {len(roles)} models",
        )
        limit = config.rollout.max_context_tokens
        measure = partial(
            measure_scoring,
            engine,
            policy,
            subject,
            role=POLICY,
            context_tokens=tuple(sorted({max(1, limit // 4), max(1, limit // 2), limit})),
            max_tokens=config.learner.max_microbatch_tokens,
        )
        table = find_table(folder / PROFILE_FILE, subject, policy.usable_degrees, measure)
        policy = with_table(policy, table)
    return RankPreparer(
        engine,
        roles,
        policy,
        temperature=config.rollout.temperature,
        max_tokens=config.learner.max_microbatch_tokens,
        note=note,
    )
