"""The engine of a run, and the selector that chooses its degree."""

from collections.abc import Callable

from earl_selector import (
    CapacityModel,
    Deployment,
    DeviceSpec,
    MemoryModel,
    ModelShape,
    ScoringMemory,
    SelectorPolicy,
    ThroughputModel,
    UnmeasuredThroughput,
)
from transformers import PreTrainedModel

from earl_trainer.config import RunConfig
from earl_trainer.experience.rank_prepare import RankPreparer, measure_scoring, with_table
from earl_trainer.phases import Phase
from earl_trainer.profiling.choice import NONE
from earl_trainer.profiling.subject import subject_of
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.rollout.whole_contexts import WholeContextThroughput


def make_memory_model(config: RunConfig, model: PreTrainedModel) -> MemoryModel:
    """Describe the memory of one rank, which may hold the reference besides the policy.

    Raises:
        ValueError: If the selector does not know models of this kind.
    """
    element_bytes = model.dtype.itemsize
    has_reference = config.selector.prepare_on == "ranks" and config.algorithm.kl_coefficient > 0.0
    return MemoryModel(
        shape=ModelShape.from_config(model.config.to_dict()),
        device=DeviceSpec.cpu(config.selector.memory_bytes),
        bytes_per_parameter=element_bytes * (2 if has_reference else 1),
        bytes_per_kv_value=element_bytes,
        utilisation=1.0,
        reserve_bytes=0,
    )


def make_selector(
    config: RunConfig, model: PreTrainedModel, *, first_context_tokens: int | None = None
) -> SelectorPolicy:
    """Make the selector for this model; refuses degrees that cannot run.

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
        memory = make_memory_model(config, model)
        return SelectorPolicy(
            memory=memory,
            degrees=rules.tp_degrees,
            num_devices=num_devices,
            max_context_tokens=config.rollout.max_context_tokens,
            throughput=judge_speed(config, memory, None),
            num_responses=_num_first_responses(config),
            first_context_tokens=first_context_tokens,
            # Ranks that idle are free for others, so that a single engine is charged for those it
            # takes: degrees are compared by tokens per second and rank.
            deployment=(
                Deployment.SHARING if rules.deployment == "sharing" else Deployment.REPLICAS
            ),
        )
    except ValueError as error:
        raise ValueError(f"selector: {error}") from error


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
    selector: SelectorPolicy,
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
    if config.rollout.engine == "vllm" and plays:
        return _make_vllm_engine(config, model, chat, degrees, tp=first_tp)
    if config.selector.num_devices == 1 or not plays:
        return TransformersEngine(
            model,
            stop_ids=chat.stop_ids,
            capacity_tokens=selector.memory.capacity_tokens(first_tp),
        )
    # Ray takes a while to import, and one process alone does without.
    from earl_trainer.rollout.parallel_engine import ParallelEngine, Placement, SwitchRules

    rules = config.selector
    if rules.prepare_on == "ranks":
        # Refused now, and not when the phase begins that needs it.
        _make_scoring_policy(
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
        rules=SwitchRules(
            timeout_s=rules.switch_timeout_s,
            generate_timeout_s=config.dispatch.timeout_s,
            max_token_error=rules.max_token_error,
            on_drift=rules.on_drift,
            max_restarts=rules.max_restarts,
        ),
        note=note,
    )


def _make_vllm_engine(
    config: RunConfig,
    model: PreTrainedModel,
    chat: ChatFormat,
    degrees: tuple[int, ...],
    *,
    tp: int,
) -> Engine:
    # Only whoever asks for vLLM has to have it.
    from earl_trainer.rollout.vllm_engine import VllmEngine
    from earl_trainer.rollout.vllm_settings import VllmSettings, VllmTimeouts

    memory, limit = make_memory_model(config, model), config.rollout.max_context_tokens
    settings = VllmSettings(
        memory=memory,
        stop_ids=chat.stop_ids,
        max_context_tokens=limit,
        num_threads=1,
        dtype=model.dtype,
    )
    for each in degrees:
        if (longest := settings.longest_context(each)) < limit:
            raise ValueError(
                f"selector: vLLM's blocks hold a context of {longest:,} tokens at tp {each} with "
                f"selector.memory_bytes = {memory.device.memory_bytes:,}, and must hold "
                f"rollout.max_context_tokens = {limit:,}"
            )
    return VllmEngine(
        model,
        stop_ids=chat.stop_ids,
        memory=memory,
        max_context_tokens=limit,
        tp=tp,
        max_token_error=config.selector.max_token_error,
        timeouts=VllmTimeouts(
            generate_s=config.dispatch.timeout_s, call_s=config.selector.switch_timeout_s
        ),
    )


def _make_scoring_policy(
    config: RunConfig,
    model: PreTrainedModel,
    degrees: tuple[int, ...],
    *,
    num_models: int,
    num_responses: int = 1,
) -> SelectorPolicy:
    """Make what chooses the degree of the preparation stage.

    Raises:
        ValueError: If no degree holds a pass over one context.
    """
    rules = config.selector
    try:
        return SelectorPolicy(
            memory=ScoringMemory(
                shape=ModelShape.from_config(model.config.to_dict()),
                device=DeviceSpec.cpu(rules.memory_bytes),
                bytes_per_parameter=model.dtype.itemsize,
                utilisation=1.0,
                num_models=num_models,
            ),
            degrees=degrees,
            num_devices=rules.num_devices,
            max_context_tokens=config.rollout.max_context_tokens,
            num_responses=num_responses,
            deployment=Deployment.SHARING,
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
    note: Callable[[str], None],
) -> RankPreparer:
    """Make the preparation stage on the engine's ranks; measures how fast they score, if need be.

    Args:
        config: The run.
        model: The learner's.
        engine: With the ranks, which have the learner's weights.
        phase: Whose loss is prepared.
        degrees: Of the engine.
        reference: The policy from before the phase, where the loss needs it.
        note: Is told in one line of changes of degree.
    """
    from earl_trainer.parallel.engine_rank import POLICY, REFERENCE
    from earl_trainer.rollout.parallel_engine import ParallelEngine

    assert isinstance(engine, ParallelEngine)
    roles: dict[str, str] = {}
    if phase.algorithm.needs_old_logprobs:
        roles["old_logprobs"] = POLICY
    if reference is not None:
        roles["reference_logprobs"] = REFERENCE
        engine.load_reference(reference)
    rules, limit = config.selector, config.rollout.max_context_tokens
    policy = _make_scoring_policy(
        config, model, degrees, num_models=max(1, len(roles)), num_responses=phase.num_episodes
    )
    if roles and rules.profile != NONE and len(policy.usable_degrees) > 1:
        table = measure_scoring(
            engine,
            policy,
            subject_of(model, memory_bytes=rules.memory_bytes, engine="scoring"),
            role=POLICY,
            context_tokens=tuple(sorted({max(1, limit // 4), max(1, limit // 2), limit})),
            max_tokens=config.learner.max_microbatch_tokens,
        )
        policy = with_table(policy, table)
    return RankPreparer(
        engine,
        roles,
        policy,
        temperature=config.rollout.temperature,
        max_tokens=config.learner.max_microbatch_tokens,
        note=note,
    )
