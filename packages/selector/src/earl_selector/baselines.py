"""Policies to compare the selector with: never switch, the paper's rule, and fewer at once."""

from dataclasses import dataclass, replace
from math import inf
from typing import final

from earl_selector.capacity import CapacityModel
from earl_selector.decision import Decision, Inputs
from earl_selector.degrees import list_usable_degrees
from earl_selector.deployment import Deployment, Fleet
from earl_selector.outlook import Outlook, append_report, look_ahead
from earl_selector.report import ContextReport
from earl_selector.state import SelectorState
from earl_selector.throughput import ThroughputModel

_WINDOW = 4
_SHORTEST_RANGE_TOKENS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class _OneDegree:
    """A policy that never switches."""

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

    @property
    def usable_degrees(self) -> tuple[int, ...]:
        """The one degree."""
        return (self.tp,)

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        return SelectorState(tp=None, reports=())


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FixedPolicy(_OneDegree):
    """Keep one degree, as every framework without a selector does."""

    def update(
        self,
        state: SelectorState,
        report: ContextReport | None,
        *,
        current_tp: int | None = None,
        num_responses: int | None = None,
    ) -> tuple[Decision, SelectorState]:
        """Decide for the one degree."""
        known = _know(self, state, report, current_tp, num_responses)
        return _decide(self, self.tp, "fixed", known)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottlePolicy(_OneDegree):
    """Keep one degree and hold the responses in flight to what it has room for.

    Floor(capacity / forecast context), at least one: the rule by which prime-rl bounds concurrency
    (src/prime_rl/orchestrator/concurrency.py), with the forecast in place of the longest context.
    """

    def update(
        self,
        state: SelectorState,
        report: ContextReport | None,
        *,
        current_tp: int | None = None,
        num_responses: int | None = None,
    ) -> tuple[Decision, SelectorState]:
        """Decide on the number of responses in flight."""
        known = _know(self, state, report, current_tp, num_responses)
        decision, state = _decide(self, self.tp, "throttles", known)
        context_tokens = max(1, known.inputs.context_tokens)
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

    @property
    def usable_degrees(self) -> tuple[int, ...]:
        """The degrees that hold at least one context of full length, ascending."""
        return list_usable_degrees(
            self.memory, self.degrees, max_context_tokens=self.max_context_tokens
        )

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        return SelectorState(tp=None, reports=())

    def update(
        self,
        state: SelectorState,
        report: ContextReport | None,
        *,
        current_tp: int | None = None,
        num_responses: int | None = None,
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
        return _decide(self, tp, reason, _know(self, state, report, current_tp, num_responses))

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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is known before a rollout."""

    tp: int | None
    reports: tuple[ContextReport, ...]
    outlook: Outlook

    @property
    def inputs(self) -> Inputs:
        return self.outlook.to_inputs(switch_s=None)


def _know(
    policy: FixedPolicy | ThrottlePolicy | AverageContextPolicy,
    state: SelectorState,
    report: ContextReport | None,
    current_tp: int | None,
    num_responses: int | None,
) -> _Known:
    reports = append_report(state.reports, report, window=_WINDOW)
    last_responses = max(1, reports[-1].num_responses) if reports else 1
    outlook = look_ahead(
        reports,
        num_responses=num_responses or last_responses,
        max_context_tokens=policy.max_context_tokens,
    )
    tp = state.tp if current_tp is None else current_tp
    return _Known(tp=tp, reports=reports, outlook=outlook)


def _decide(
    policy: FixedPolicy | ThrottlePolicy | AverageContextPolicy, tp: int, reason: str, known: _Known
) -> tuple[Decision, SelectorState]:
    outlook, capacity_tokens = known.outlook, policy.fleet.capacity_tokens(tp)
    decision = Decision(
        tp=tp,
        previous_tp=known.tp,
        reason=reason,
        forecast_tokens=outlook.resident_tokens,
        capacity_tokens=capacity_tokens,
        feasible=policy.fleet.holding_degrees((tp,), num_tokens=outlook.resident_tokens),
        steps_to_limit=outlook.steps_to_limit(
            capacity_tokens=capacity_tokens, max_context_tokens=policy.max_context_tokens
        ),
        inputs=known.inputs,
    )
    return decision, SelectorState(tp=tp, reports=known.reports)
