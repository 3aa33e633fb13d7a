"""Replay traces where the smallest degree cannot hold one context of full length.

    python tools/bench_selector.py --only walls

In the cluster of `selector_traces` every degree holds every context, so that no policy can lose a
rollout. Here are Qwen2.5-14B and A100-40GB devices, 8 of them, at degree 1, 2 or 4: alone a device
holds some 28,000 tokens, and contexts grow up to 32,768. Traces cross what two devices hold.
Whoever is at degree 1 when contexts get too long loses the rollout. The policy is that of
`selector_traces`; these traces are there for it to fail on, not to be tuned on.
"""

from collections.abc import Sequence
from statistics import fmean

from bench_section import Section
from benchmarking import Figure
from earl_selector import (
    DEVICE_SPECS,
    MODEL_SHAPES,
    MemoryModel,
    RooflineThroughput,
    SimulatedCluster,
)
from selector_traces import NUM_DEVICES, SWITCH_S, CachedThroughput, Result, compare

SEEDS = range(200, 260)
DEGREES = (1, 2, 4)
CROSSOVER_TP = 2
MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-14b"],
    device=DEVICE_SPECS["a100-40gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)


def make_cluster() -> SimulatedCluster:
    """Describe the cluster."""
    return SimulatedCluster(
        memory=MEMORY,
        throughput=CachedThroughput(RooflineThroughput(memory=MEMORY)),
        degrees=DEGREES,
        num_devices=NUM_DEVICES,
        switch_s=SWITCH_S,
    )


def summarise(results: Sequence[Result]) -> dict[str, Figure]:
    """Return what policies lost and where they queued without need."""

    def lost(policy: str) -> int:
        return sum(result.replays[policy].num_out_of_memory for result in results)

    def queues(policy: str) -> int:
        return sum(result.num_avoidable_queues(policy) for result in results)

    regrets = [result.replays["selector"].regret(result.optimum) for result in results]
    return {
        "traces": Figure(value=len(results), unit="traces", goal=""),
        "lost_rollouts": Figure(value=lost("selector"), unit="rollouts", goal="== 0"),
        "avoidable_queueing": Figure(value=queues("selector"), unit="rollouts", goal="== 0"),
        "mean_regret": Figure(value=fmean(regrets), unit="share", goal=""),
        "lost_rollouts_earl": Figure(value=lost("earl"), unit="rollouts", goal=""),
        "lost_rollouts_fixed_1": Figure(value=lost("fixed_1"), unit="rollouts", goal=""),
    }


def measure(quick: bool) -> Section:
    """Replay the traces, 6 of them if quick."""
    results = compare(SEEDS[:6] if quick else SEEDS, make_cluster(), crossover_tp=CROSSOVER_TP)
    rows = [
        {
            "seed": result.trace.seed,
            "kind": result.trace.kind.value,
            "num_steps": len(result.trace.loads),
            "optimum_s": result.optimum.total_s,
            "selector_s": result.replays["selector"].total_s,
            "lost_rollouts": result.replays["selector"].num_out_of_memory,
            "lost_rollouts_earl": result.replays["earl"].num_out_of_memory,
            "avoidable_queueing": result.num_avoidable_queues("selector"),
        }
        for result in results
    ]
    return Section(figures=summarise(results), rows=rows)
