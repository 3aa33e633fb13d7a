"""Replay 200 made-up traces under every policy and compare them with the exact optimum.

The cluster is the one of EARL (arXiv:2510.05943, section 3): Qwen2.5-72B on 8 x H100-80GB at
tensor-parallel degree 4 or 8, contexts of up to 32,768 tokens. Its speed comes from the roofline
model, nothing is run. A switch is charged 6 s, the slowest wake-up from sleep mode in vLLM's own
measurements (blog.vllm.ai, 2025-10-26).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from bench_section import Section
from benchmarking import Figure
from earl_selector import (
    DEVICE_SPECS,
    MODEL_SHAPES,
    AverageContextPolicy,
    FixedPolicy,
    MemoryModel,
    Policy,
    Replay,
    Schedule,
    SelectorPolicy,
    SimulatedCluster,
    ThrottlePolicy,
    Trace,
    TraceKind,
    make_trace,
    replay,
)
from earl_selector.roofline import RooflineThroughput
from earl_selector.traces import TRACE_SEEDS

DEGREES = (4, 8)
NUM_DEVICES = 8
MAX_CONTEXT_TOKENS = 32_768
SWITCH_S = 6.0
MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)


class CachedThroughput:
    """A throughput model that computes each load once, as every policy asks for the same ones."""

    def __init__(self, model: RooflineThroughput) -> None:
        self._rate: Callable[[int, int, int], float] = lru_cache(maxsize=None)(
            model.tokens_per_s_per_device
        )

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        """Return the rate of the model."""
        return self._rate(tp, num_responses, context_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One trace under every policy."""

    trace: Trace
    crosses: bool
    """Whether different degrees are the best at different steps."""
    optimum: Schedule
    best_fixed_s: float
    replays: Mapping[str, Replay]

    def against_fixed(self, policy: str) -> float:
        """Return by which share a policy took longer than the best fixed degree."""
        return self.replays[policy].total_s / self.best_fixed_s - 1.0

    def num_avoidable_queues(self, policy: str) -> int:
        """Count rollouts that queued at a degree that did not hold the forecast, though one did."""
        return sum(
            step.waiting_s > 0.0
            and bool(step.decision.feasible)
            and step.decision.tp not in step.decision.feasible
            for step in self.replays[policy].steps
        )

    def worth_switching(self) -> bool:
        """Tell whether following the load saves more than a switch costs."""
        return self.following_saves_s() > SWITCH_S

    def faster(self) -> bool:
        """Tell whether the selector beat the best fixed degree."""
        return self.against_fixed("selector") < 0.0

    def following_saves_s(self) -> float:
        """Return what a policy would gain that leaves the largest degree wherever that helps.

        It knows when a spell of other loads begins and not when it ends, so the first rollout
        thereafter still runs at the smaller degree, and each spell costs two switches. Not above
        zero, and staying is the best that can be done without foreseeing jumps.
        """
        cluster = make_cluster()
        small, large = DEGREES
        savings_s = [
            cluster.rollout_s(load, large) - cluster.rollout_s(load, small)
            for load in self.trace.loads
        ]
        total_s, away = 0.0, False
        for saving_s in savings_s:
            if saving_s > 0.0 or away:
                total_s += saving_s
            if saving_s > 0.0 and not away:
                total_s -= 2.0 * SWITCH_S
            away = saving_s > 0.0
        return total_s

    def to_row(self) -> dict[str, object]:
        """Return what is stored of it."""
        return {
            "seed": self.trace.seed,
            "kind": self.trace.kind.value,
            "num_steps": len(self.trace.loads),
            "optimum_s": self.optimum.total_s,
            "optimum_switches": self.optimum.num_switches,
            "best_fixed_s": self.best_fixed_s,
            **{f"{name}_s": each.total_s for name, each in self.replays.items()},
            **{f"{name}_waiting_s": each.waiting_s for name, each in self.replays.items()},
            **{f"{name}_switches": each.num_switches for name, each in self.replays.items()},
        }


def make_cluster() -> SimulatedCluster:
    """Describe the cluster."""
    return SimulatedCluster(
        memory=MEMORY,
        throughput=CachedThroughput(RooflineThroughput(memory=MEMORY)),
        degrees=DEGREES,
        num_devices=NUM_DEVICES,
        switch_s=SWITCH_S,
    )


def make_policies(cluster: SimulatedCluster, trace: Trace) -> dict[str, Policy]:
    """Make every policy, told no more than the responses of the first rollout."""
    num_responses, memory = trace.loads[0].num_responses, cluster.memory
    selector = SelectorPolicy(
        memory=memory,
        degrees=cluster.degrees,
        num_devices=cluster.num_devices,
        max_context_tokens=MAX_CONTEXT_TOKENS,
        throughput=cluster.throughput,
        switch_s=cluster.switch_s,
        num_responses=num_responses,
    )
    return {
        "selector": selector,
        "earl": AverageContextPolicy(
            memory=memory,
            degrees=cluster.degrees,
            max_context_tokens=MAX_CONTEXT_TOKENS,
            throughput=cluster.throughput,
            num_responses=num_responses,
        ),
        "throttle": ThrottlePolicy(
            memory=memory, tp=selector.usable_degrees[0], max_context_tokens=MAX_CONTEXT_TOKENS
        ),
        **{
            f"fixed_{tp}": FixedPolicy(memory=memory, tp=tp, max_context_tokens=MAX_CONTEXT_TOKENS)
            for tp in cluster.degrees
        },
    }


def compare(
    seeds: Sequence[int], cluster: SimulatedCluster, *, crossover_tp: int = DEGREES[0]
) -> list[Result]:
    """Replay the traces of these seeds, which cross what an engine of `crossover_tp` holds."""
    results: list[Result] = []
    for seed in seeds:
        trace = make_trace(
            seed,
            crossover_tokens=cluster.memory.capacity_tokens(crossover_tp),
            max_context_tokens=MAX_CONTEXT_TOKENS,
        )
        best = {
            min(cluster.degrees, key=lambda tp, load=load: cluster.rollout_s(load, tp))
            for load in trace.loads
        }
        results.append(
            Result(
                trace=trace,
                crosses=len(best) > 1,
                optimum=cluster.find_optimum(trace.loads),
                best_fixed_s=cluster.find_best_fixed_s(trace.loads),
                replays={
                    name: replay(policy, trace.loads, cluster)
                    for name, policy in make_policies(cluster, trace).items()
                },
            )
        )
    return results


def summarise(results: Sequence[Result]) -> dict[str, Figure]:
    """Return the figures; regret is the extra time over the optimum, as a share of it."""

    def switches(policy: str) -> int:
        return sum(result.replays[policy].num_switches for result in results)

    def regret(policy: str, chosen: Sequence[Result]) -> float:
        return fmean(result.replays[policy].regret(result.optimum) for result in chosen)

    by_kind = {
        kind: [result for result in results if result.trace.kind is kind] for kind in TraceKind
    }
    against = [result.against_fixed("selector") for result in results]
    switching = [
        result.against_fixed("selector") for result in results if result.optimum.num_switches
    ]
    worth = [result for result in results if result.worth_switching()]
    lost = sum(result.replays["selector"].num_out_of_memory for result in results)
    queues = sum(result.num_avoidable_queues("selector") for result in results)
    figures = {
        "crossing_traces": Figure(
            value=sum(result.crosses for result in results),
            unit="traces",
            goal=f"== {len(results)}",
        ),
        "lost_rollouts": Figure(value=lost, unit="rollouts", goal="== 0"),
        "avoidable_queueing": Figure(value=queues, unit="rollouts", goal="== 0"),
        "mean_regret": Figure(value=regret("selector", results), unit="share", goal="<= 0.05"),
        "switches_per_earl_switch": Figure(
            value=switches("selector") / switches("earl"), unit="ratio", goal="< 1"
        ),
        "worst_against_best_fixed": Figure(value=max(against), unit="share", goal="<= 0.01"),
        "mean_against_best_fixed_where_optimum_switches": Figure(
            value=fmean(switching), unit="share", goal="< 0"
        ),
        "faster_than_best_fixed_where_optimum_switches": Figure(
            value=fmean(each < 0.0 for each in switching), unit="share", goal=""
        ),
    }
    if worth:
        figures["worth_switching"] = Figure(value=len(worth), unit="traces", goal="")
        figures["faster_than_best_fixed_where_worth_switching"] = Figure(
            value=fmean(result.faster() for result in worth), unit="share", goal=""
        )
        figures["mean_against_best_fixed_where_worth_switching"] = Figure(
            value=fmean(result.against_fixed("selector") for result in worth),
            unit="share",
            goal="< 0",
        )
    for kind, chosen in by_kind.items():
        figures[f"mean_regret_{kind}"] = Figure(
            value=regret("selector", chosen), unit="share", goal=""
        )
        figures[f"faster_than_best_fixed_{kind}"] = Figure(
            value=fmean(result.faster() for result in chosen), unit="share", goal=""
        )
        figures[f"mean_against_best_fixed_{kind}"] = Figure(
            value=fmean(result.against_fixed("selector") for result in chosen),
            unit="share",
            goal="",
        )
    spiky = by_kind[TraceKind.SPIKY]
    figures["spiky_traces_where_following_pays"] = Figure(
        value=sum(result.following_saves_s() > 0.0 for result in spiky), unit="traces", goal=""
    )
    for name in ("earl", "throttle", *(f"fixed_{tp}" for tp in DEGREES)):
        figures[f"mean_regret_{name}"] = Figure(value=regret(name, results), unit="share", goal="")
    best_fixed = fmean(result.best_fixed_s / result.optimum.total_s - 1.0 for result in results)
    figures["mean_regret_best_fixed"] = Figure(value=best_fixed, unit="share", goal="")
    return figures


def measure(quick: bool) -> Section:
    """Replay the traces, 12 of them if quick."""
    results = compare(TRACE_SEEDS[:12] if quick else TRACE_SEEDS, make_cluster())
    return Section(figures=summarise(results), rows=[result.to_row() for result in results])
