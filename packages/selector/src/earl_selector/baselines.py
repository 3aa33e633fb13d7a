"""Policies to compare the selector with: never switch, the paper's rule, and fewer at once."""

from dataclasses import dataclass, replace
from math import inf
from typing import final

from earl_selector.capacity import CapacityModel
from earl_selector.decision import Decision
from earl_selector.deployment import Deployment, Fleet
from earl_selector.outlook import append_report, look_ahead
from earl_selector.report import ContextReport
from earl_selector.state import SelectorState
from earl_selector.throughput import ThroughputModel

_WINDOW = 4
_SHORTEST_RANGE_TOKENS = 1024


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPolicy:
    """Keep one degree, as every framework without a selector does."""

    memory: CapacityModel
    tp: int
    max_context_tokens: int
    num_devices: int | None = None
    """Devices of all engines; None for those of one."""
    deployment: Deployment = Deployment.REPLICAS

    @property
    def fleet(self) -> Fleet:
        """The engines that the devices form."""
        return Fleet(
            memory=self.memory,
            num_devices=self.num_devices or self.tp,
            deployment=self.deployment,
        )

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        return SelectorState(tp=None, reports=())

    def update(
        self, state: SelectorState, report: ContextReport | None
    ) -> tuple[Decision, SelectorState]:
        """Decide for the one degree."""
        return _decide(self, self.tp, "fixed", state=state, report=report)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePolicy:
    """Keep one degree and hold the responses in flight to what it has room for.

    Floor(capacity / forecast context), at least one: the rule by which prime-rl bounds concurrency
    (src/prime_rl/orchestrator/concurrency.py), with the forecast in place of the longest context.
    """

    memory: CapacityModel
    tp: int
    max_context_tokens: int
    num_devices: int | None = None
    """Devices of all engines; None for those of one."""
    deployment: Deployment = Deployment.REPLICAS

    @property
    def fleet(self) -> Fleet:
        """The engines that the devices form."""
        return Fleet(
            memory=self.memory,
            num_devices=self.num_devices or self.tp,
            deployment=self.deployment,
        )

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        return SelectorState(tp=None, reports=())

    def update(
        self, state: SelectorState, report: ContextReport | None
    ) -> tuple[Decision, SelectorState]:
        """Decide on the number of responses in flight."""
        decision, state = _decide(self, self.tp, "throttles", state=state, report=report)
        num_responses = max(1, state.reports[-1].num_responses) if state.reports else 1
        context_tokens = max(1, -(-decision.forecast_tokens // num_responses))
        max_responses = max(1, self.fleet.max_responses(self.tp, context_tokens))
        return replace(decision, max_responses=max_responses), state


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class AverageContextPolicy:
    """EARL's rule: the best degree for the range in which the average context lies.

    Throughput is taken per degree at lengths that double, at one number of responses; the degree
    follows the last average at once, without a forecast, a switch cost or the number of responses
    in flight now. Source: EARL, arXiv:2510.05943, section 2.
    """

    memory: CapacityModel
    degrees: tuple[int, ...]
    max_context_tokens: int
    throughput: ThroughputModel
    num_responses: int
    """Responses in flight when the throughput was measured."""
    num_devices: int | None = None
    """Devices of all engines; None for as many as the largest degree takes."""
    deployment: Deployment = Deployment.REPLICAS

    @property
    def fleet(self) -> Fleet:
        """The engines that the devices form at each degree."""
        return Fleet(
            memory=self.memory,
            num_devices=self.num_devices or max(self.degrees),
            deployment=self.deployment,
        )

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        return SelectorState(tp=None, reports=())

    def update(
        self, state: SelectorState, report: ContextReport | None
    ) -> tuple[Decision, SelectorState]:
        """Decide from the average context of the last rollout; the shortest range at first."""
        mean_tokens = 0.0 if report is None else report.mean_context_tokens
        if report is None and state.tp is not None:
            mean_tokens = state.reports[-1].mean_context_tokens if state.reports else 0.0
        range_tokens = min(_SHORTEST_RANGE_TOKENS, self.max_context_tokens)
        while range_tokens < min(mean_tokens, self.max_context_tokens):
            range_tokens = min(2 * range_tokens, self.max_context_tokens)
        reason = f"average context {mean_tokens:,.0f} is in the range up to {range_tokens:,}"
        tp = self._find_best(range_tokens)
        return _decide(self, tp, reason, state=state, report=report)

    def _find_best(self, context_tokens: int) -> int:
        seconds = {
            tp: self.fleet.predict_rollout_s(
                self.throughput,
                tp,
                num_responses=self.num_responses,
                context_tokens=context_tokens,
            )
            for tp in sorted(self.degrees)
        }
        if min(seconds.values()) == inf:
            raise ValueError(
                f"no tp of {self.degrees} holds one context of {context_tokens} tokens"
            )
        return min(seconds, key=lambda tp: seconds[tp])


def _decide(
    policy: FixedPolicy | ThrottlePolicy | AverageContextPolicy,
    tp: int,
    reason: str,
    *,
    state: SelectorState,
    report: ContextReport | None,
) -> tuple[Decision, SelectorState]:
    reports = append_report(state.reports, report, window=_WINDOW)
    outlook = look_ahead(
        reports,
        num_responses=max(1, reports[-1].num_responses) if reports else 1,
        max_context_tokens=policy.max_context_tokens,
    )
    capacity_tokens = policy.fleet.capacity_tokens(tp)
    decision = Decision(
        tp=tp,
        previous_tp=state.tp,
        reason=reason,
        forecast_tokens=outlook.resident_tokens,
        capacity_tokens=capacity_tokens,
        feasible=policy.fleet.holding_degrees((tp,), num_tokens=outlook.resident_tokens),
        steps_to_limit=outlook.steps_to_limit(
            capacity_tokens=capacity_tokens, max_context_tokens=policy.max_context_tokens
        ),
    )
    return decision, SelectorState(tp=tp, reports=reports)
