"""Replay of a trace under a policy, against a throughput model instead of an engine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum, inf, isfinite
from typing import final

from earl_selector.capacity import CapacityModel
from earl_selector.contract import Policy
from earl_selector.decision import Decision
from earl_selector.deployment import Deployment, Fleet
from earl_selector.optimum import Schedule, find_optimum
from earl_selector.throughput import ThroughputModel
from earl_selector.traces import Load


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCluster:
    """The devices on which traces are replayed."""

    memory: CapacityModel
    throughput: ThroughputModel
    degrees: tuple[int, ...]
    num_devices: int
    switch_s: float | int
    """Seconds that a change of degree takes."""
    deployment: Deployment = Deployment.REPLICAS

    def rollout_s(self, load: Load, tp: int, *, max_responses: int | None = None) -> float:
        """Return the seconds of a rollout; infinity where the engine runs out of memory.

        Fewer responses at once do not make less work: they run one after another.
        """
        if max_responses is None or max_responses >= load.num_responses:
            at_once = load.num_responses
        else:
            at_once = max_responses
        fleet = Fleet(memory=self.memory, num_devices=self.num_devices, deployment=self.deployment)
        seconds = fleet.predict_rollout_s(
            self.throughput, tp, num_responses=at_once, context_tokens=load.context_tokens
        )
        return seconds * load.num_responses / at_once

    def find_optimum(self, loads: Sequence[Load]) -> Schedule:
        """Return the fastest schedule for a trace that is known beforehand."""
        seconds = [[self.rollout_s(load, tp) for tp in self.degrees] for load in loads]
        return find_optimum(seconds, self.degrees, switch_s=self.switch_s)

    def find_best_fixed_s(self, loads: Sequence[Load]) -> float:
        """Return the time of the fastest single degree that can run every step."""
        return min(fsum(self.rollout_s(load, tp) for load in loads) for tp in self.degrees)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedStep:
    """One decision and what came of it."""

    decision: Decision
    """With its outcome."""
    rollout_s: float
    """0 where the rollout was lost."""
    switch_s: float
    waiting_s: float
    """Response-seconds waited for room, per response: the share that waits x the rollout."""
    out_of_memory: bool
    """Whether not even one context fitted, so that episodes were lost."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A trace under a policy, step by step."""

    steps: tuple[ReplayedStep, ...]

    @property
    def total_s(self) -> float:
        """Sum rollouts and switches; infinity if a rollout was lost, as it was not done."""
        if self.num_out_of_memory:
            return inf
        return fsum(step.rollout_s + step.switch_s for step in self.steps)

    @property
    def waiting_s(self) -> float:
        """Sum what responses waited for room, per response."""
        return fsum(step.waiting_s for step in self.steps)

    @property
    def num_switches(self) -> int:
        """Count the changes of degree."""
        return sum(step.decision.switches for step in self.steps)

    @property
    def num_out_of_memory(self) -> int:
        """Count the rollouts that lost episodes."""
        return sum(step.out_of_memory for step in self.steps)

    def regret(self, optimum: Schedule) -> float:
        """Return by which share the replay took longer than the optimum."""
        return self.total_s / optimum.total_s - 1.0


def replay(policy: Policy, loads: Sequence[Load], cluster: SimulatedCluster) -> Replay:
    """Let a policy decide before each load; it learns of the load, and of its time, afterwards."""
    state, report = policy.init(), None
    steps: list[ReplayedStep] = []
    for load in loads:
        decision, state = policy.update(state, report)
        seconds = cluster.rollout_s(load, decision.tp, max_responses=decision.max_responses)
        lost = not isfinite(seconds)
        switch_s = float(cluster.switch_s) if decision.switches else None
        report = replace(load.to_report(), rollout_s=None if lost else seconds, switch_s=switch_s)
        steps.append(
            ReplayedStep(
                decision=decision.observe(report),
                rollout_s=0.0 if lost else seconds,
                switch_s=switch_s or 0.0,
                waiting_s=0.0 if lost else seconds * _waiting_share(load, decision),
                out_of_memory=lost,
            )
        )
    return Replay(steps=tuple(steps))


def _waiting_share(load: Load, decision: Decision) -> float:
    room_tokens = decision.capacity_tokens
    if decision.max_responses is not None:
        room_tokens = min(room_tokens, decision.max_responses * load.context_tokens)
    return max(0.0, 1.0 - room_tokens / load.resident_tokens)
