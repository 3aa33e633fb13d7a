"""What is needed to measure a profile for a run."""

from dataclasses import dataclass
from importlib.metadata import packages_distributions, version
from typing import final

from earl_selector import (
    MemoryModel,
    Policy,
    ProfileSubject,
    RooflineThroughput,
    ThroughputModel,
)
from transformers import PreTrainedModel

from earl_trainer.config import RunConfig
from earl_trainer.profiling.grid import DegreeLoad, RunLoad
from earl_trainer.profiling.meter import Meter
from earl_trainer.profiling.subject import subject_of
from earl_trainer.rollout.engine import Engine

_MOST_TIMED_TOKENS = 16


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSetup:
    """An engine to be timed, and what for."""

    meter: Meter
    subject: ProfileSubject
    load: RunLoad
    prior: ThroughputModel
    """What is assumed where nothing was measured."""


def make_setup(
    config: RunConfig,
    *,
    model: PreTrainedModel,
    engine: Engine,
    stop_ids: frozenset[int],
    selector: Policy,
) -> ProfileSetup:
    """Describe a run for its profile.

    Args:
        config: The whole config.
        model: That the engine generates with.
        engine: Of the run.
        stop_ids: Tokens that end a reply.
        selector: Says which degrees may be chosen, and what they hold.
    """
    rollout, fleet, memory = config.rollout, selector.fleet, selector.memory
    assert isinstance(memory, MemoryModel), "an engine that generates has one"
    warmup_episodes = config.warmup.num_episodes if config.warmup.num_steps else 0
    num_episodes = -(-max(rollout.num_episodes, warmup_episodes) // config.rollout_workers)
    name = rollout.engine
    if name == "vllm":
        name = f"{name} {version(packages_distributions()[name][0])}"
    ranks = f"{config.selector.num_devices} ranks {config.selector.deployment}"
    return ProfileSetup(
        meter=Meter(
            engine=engine,
            vocab_size=model.config.get_text_config().vocab_size,
            stop_ids=stop_ids,
            num_new_tokens=min(rollout.max_reply_tokens, _MOST_TIMED_TOKENS),
            # vLLM's cache would share a common prompt from then on, as conversations never do.
            shared_prompt=rollout.engine == "transformers",
        ),
        subject=subject_of(
            model,
            memory_bytes=config.selector.memory_bytes,
            engine=f"{name}, {ranks}",
        ),
        load=RunLoad(
            degrees=tuple(
                DegreeLoad(
                    tp=tp,
                    num_responses=-(-num_episodes // fleet.num_sharing(tp)),
                    capacity_tokens=memory.capacity_tokens(tp),
                    num_engines=fleet.num_sharing(tp),
                )
                for tp in selector.usable_degrees
            ),
            max_context_tokens=rollout.max_context_tokens,
            max_reply_tokens=rollout.max_reply_tokens,
        ),
        prior=RooflineThroughput(memory=memory),
    )
