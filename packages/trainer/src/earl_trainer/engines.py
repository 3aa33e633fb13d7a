"""The engine of a run, and the selector that chooses its degree."""

from collections.abc import Callable
from dataclasses import replace

from earl_selector import (
    AverageContextPolicy,
    CapacityModel,
    Deployment,
    DeviceSpec,
    FixedPolicy,
    MemoryModel,
    ModelShape,
    Policy,
    SelectorPolicy,
    ThrottlePolicy,
    ThroughputModel,
    UnmeasuredThroughput,
)
from earl_selector.degrees import check_degrees, list_usable_degrees
from transformers import PreTrainedModel

from earl_trainer.config import RunConfig
from earl_trainer.parallel.tp_plan import divides_vocabulary
from earl_trainer.preparation import make_scoring_policy
from earl_trainer.profiling.choice import ChosenProfile
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.switch import SwitchRules
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.rollout.vllm_library import require_vllm
from earl_trainer.rollout.vllm_settings import VllmSettings, VllmTimeouts
from earl_trainer.rollout.whole_contexts import WholeContextThroughput
from earl_trainer.serving.assembly import make_served_engine


def make_memory_model(config: RunConfig, model: PreTrainedModel) -> MemoryModel:
    """Describe the memory of one rank, which may hold the reference besides the policy.

    Raises:
        ValueError: If the selector does not know models of this kind.
    """
    element_bytes, shape = model.dtype.itemsize, ModelShape.from_config(model.config.to_dict())
    has_reference = config.selector.prepare_on == "ranks" and config.algorithm.kl_coefficient > 0.0
    return MemoryModel(
        shape=shape,
        device=DeviceSpec.cpu(config.selector.memory_bytes),
        bytes_per_parameter=element_bytes * (2 if has_reference else 1),
        bytes_per_kv_value=element_bytes,
        utilisation=1.0,
        reserve_bytes=0,
        # vLLM pads the vocabulary and splits it.
        splits_vocabulary=config.rollout.engine == "vllm"
        or divides_vocabulary(shape.vocab_size, config.selector.tp_degrees),
    )


def make_selector(
    config: RunConfig, model: PreTrainedModel, *, first_context_tokens: int | None = None
) -> Policy:
    """Make what decides on degrees for this model; refuses those that cannot run.

    Args:
        config: The run.
        model: Whose contexts take memory.
        first_context_tokens: What the contexts of the first step are expected to take; None expects
            them to be cut.

    Raises:
        ValueError: If a degree does not divide the heads or the ranks, or if the memory does not
            hold one context.
    """
    rules, num_devices = config.selector, config.selector.num_devices
    for tp in rules.tp_degrees:
        if num_devices % tp:
            raise ValueError(
                "selector.num_devices must be a multiple of every degree, got "
                f"{num_devices} and tp {tp}"
            )
    try:
        return _make_policy(config, make_memory_model(config, model), first_context_tokens)
    except ValueError as error:
        raise ValueError(f"selector: {error}") from error


def _make_policy(
    config: RunConfig, memory: MemoryModel, first_context_tokens: int | None
) -> Policy:
    rules, limit = config.selector, config.rollout.max_context_tokens
    num_devices, deployment = rules.num_devices, Deployment(rules.deployment)
    if rules.policy == "selector":
        return SelectorPolicy(
            memory=memory,
            degrees=rules.tp_degrees,
            num_devices=num_devices,
            max_context_tokens=limit,
            throughput=judge_speed(config, memory, None),
            in_seconds=False,
            num_responses=_num_first_responses(config),
            first_context_tokens=first_context_tokens,
            deployment=deployment,
            # Ranks that idle are free for others.
            charges_ranks=deployment is Deployment.SINGLE,
            overflow_is_lost=config.rollout.overflow == "cut",
        )
    check_degrees(memory, rules.tp_degrees, num_devices=num_devices, max_context_tokens=limit)
    if rules.policy == "earl":
        return AverageContextPolicy(
            memory=memory,
            degrees=list_usable_degrees(memory, rules.tp_degrees, max_context_tokens=limit),
            max_context_tokens=limit,
            throughput=judge_speed(config, memory, None) or UnmeasuredThroughput(memory=memory),
            num_responses=_num_first_responses(config),
            num_devices=num_devices,
            # The paper compares tokens per second and device, of one engine as of several.
            deployment=(Deployment.REPLICAS if deployment is Deployment.SINGLE else deployment),
        )
    policy = FixedPolicy if rules.policy == "fixed" else ThrottlePolicy
    return policy(
        memory=memory,
        tp=rules.tp_degrees[0],
        max_context_tokens=limit,
        num_devices=num_devices,
        deployment=deployment,
    )


def go_by_profile(policy: Policy, config: RunConfig, profile: ChosenProfile) -> Policy:
    """Return the policy that goes by a profile; one that keeps its degree stays as it is."""
    speed = judge_speed(config, policy.memory, profile.throughput)
    if isinstance(policy, SelectorPolicy):
        return replace(
            policy,
            throughput=speed,
            in_seconds=profile.throughput is not None,
            switch_s=profile.switch_s,
        )
    if isinstance(policy, AverageContextPolicy):
        return replace(policy, throughput=speed or policy.throughput)
    return policy


def judge_speed(
    config: RunConfig, memory: CapacityModel, measured: ThroughputModel | None
) -> ThroughputModel | None:
    """Return the speed that degrees are compared by: of what is not cut, where contexts may be.

    Args:
        config: The run.
        memory: Of one engine.
        measured: Or None, which leaves an order that was not measured.
    """
    if config.rollout.overflow == "queue":
        return measured
    known = measured or UnmeasuredThroughput(memory=memory)
    return WholeContextThroughput(throughput=known, memory=memory)


def _num_first_responses(config: RunConfig) -> int:
    """Return how many episodes an engine plays at once in the first step."""
    first = config.warmup if config.warmup.num_steps else config.rollout
    return -(-first.num_episodes // config.rollout_workers)


def make_engine(
    config: RunConfig,
    model: PreTrainedModel,
    chat: ChatFormat,
    selector: Policy,
    *,
    tp: int | None,
    plays: bool,
    note: Callable[[str], None],
) -> Engine:
    """Make what generates: in this process, or ranks of their own.

    Args:
        config: The run.
        model: The learner's.
        chat: Knows the tokens that end a reply.
        selector: Of the degrees that are usable.
        tp: The degree to go on at; None, or one that is not usable, begins with the smallest.
        plays: Whether this worker of the run generates at all.
        note: Is told in one line what happened to ranks.

    Raises:
        ValueError: If the model cannot be split so.
    """
    degrees = selector.usable_degrees
    first_tp = tp if tp is not None and tp in degrees else degrees[0]
    if config.is_asynchronous and config.rollout.engine == "vllm":
        # Refused now, and not in the processes that generate; here only matches are played.
        require_vllm()
        make_vllm_settings(config, model, stop_ids=chat.stop_ids, tp=1, num_threads=1)
    elif config.rollout.engine == "vllm" and plays:
        return _make_vllm_engine(config, model, chat, degrees, tp=first_tp, note=note)
    # While workers generate, their servers are theirs alone: matches are played here.
    if config.rollout.engine == "openai" and plays and not config.is_asynchronous:
        return make_served_engine(
            config,
            model,
            config.rollout.servers,
            stop_ids=chat.stop_ids,
            capacity_tokens=selector.memory.capacity_tokens(1),
            note=note,
        )
    if config.selector.num_devices == 1 or not plays:
        return TransformersEngine(
            model,
            stop_ids=chat.stop_ids,
            capacity_tokens=selector.memory.capacity_tokens(first_tp),
        )
    # Ray takes a while to import, and one process alone does without.
    from earl_trainer.parallel.placement import Placement
    from earl_trainer.rollout.parallel_engine import ParallelEngine

    rules = config.selector
    if rules.prepare_on == "ranks":
        # Refused now, and not when the phase begins that needs it.
        make_scoring_policy(
            config, model, degrees, num_models=2 if config.algorithm.kl_coefficient else 1
        )
    return ParallelEngine(
        model,
        Placement(
            num_ranks=rules.num_devices,
            degrees=degrees,
            memory=make_memory_model(config, model),
            shares=rules.deployment == "sharing",
            ray_address=rules.ray_address,
        ),
        stop_ids=chat.stop_ids,
        tp=first_tp,
        rules=_switch_rules(config),
        note=note,
    )


def _switch_rules(config: RunConfig) -> SwitchRules:
    rules = config.selector
    return SwitchRules(
        timeout_s=rules.switch_timeout_s,
        generate_timeout_s=config.dispatch.timeout_s,
        max_token_error=rules.max_token_error,
        on_drift=rules.on_drift,
        max_restarts=rules.max_restarts,
    )


def make_vllm_settings(
    config: RunConfig,
    model: PreTrainedModel,
    *,
    stop_ids: frozenset[int],
    tp: int,
    num_threads: int,
) -> VllmSettings:
    """Describe how vLLM is started.

    Args:
        config: The run.
        model: Whose weights it gets.
        stop_ids: Tokens that end a reply.
        tp: A degree that is to hold the longest context.
        num_threads: Of all ranks together, where they compute on a CPU.

    Raises:
        ValueError: If it does not hold it.
    """
    memory, limit = make_memory_model(config, model), config.rollout.max_context_tokens
    rules = _switch_rules(config)
    settings = VllmSettings(
        memory=memory,
        stop_ids=stop_ids,
        max_context_tokens=limit,
        num_threads=num_threads,
        dtype=model.dtype,
        timeouts=VllmTimeouts(generate_s=rules.generate_timeout_s, call_s=rules.timeout_s),
    )
    if (longest := settings.longest_context(tp)) < limit:
        raise ValueError(
            f"selector: vLLM's blocks hold a context of {longest:,} tokens at tp {tp} with "
            f"selector.memory_bytes = {memory.device.memory_bytes:,}, and must hold "
            f"rollout.max_context_tokens = {limit:,}"
        )
    return settings


def _make_vllm_engine(
    config: RunConfig,
    model: PreTrainedModel,
    chat: ChatFormat,
    degrees: tuple[int, ...],
    *,
    tp: int,
    note: Callable[[str], None],
) -> Engine:
    # Only whoever asks for vLLM has to have it.
    from earl_trainer.rollout.vllm_engine import VllmEngine

    for each in degrees:
        make_vllm_settings(config, model, stop_ids=chat.stop_ids, tp=each, num_threads=1)
    return VllmEngine(
        model,
        stop_ids=chat.stop_ids,
        memory=make_memory_model(config, model),
        max_context_tokens=config.rollout.max_context_tokens,
        tp=tp,
        rules=_switch_rules(config),
        note=note,
    )
