"""Which tensor-parallel degree the next rollout runs at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from statistics import fmean
from typing import Final, final

from earl_selector.capacity import CapacityModel
from earl_selector.decision import Alternative, Decision
from earl_selector.degrees import check_degrees, list_usable_degrees
from earl_selector.deployment import Deployment, Fleet
from earl_selector.dwell import expect_dwell_steps
from earl_selector.outlook import Outlook, append_report, look_ahead
from earl_selector.refusal import leave_out_refused
from earl_selector.report import ContextReport
from earl_selector.state import SelectorState
from earl_selector.throughput import ThroughputModel, UnmeasuredThroughput
from earl_selector.trend import find_growth
from earl_selector.weighing import Weighing

_NUM_REMEMBERED: Final = 128
# Through one window jitter looks like growth too often.
_WINDOWS_OF_GROWTH: Final = 4


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorPolicy:
    """Run each rollout at the degree predicted to be the fastest, as far as switching pays.

    Resident tokens (responses x context) decide, not the average context as in EARL
    (arXiv:2510.05943, section 2): in each of the 29 measured cells of EARL's figure 3 the larger
    degree is the faster one exactly where resident tokens exceed the capacity of the smaller one.

    - Up at once, before the rollout that would overflow, to the fastest degree that holds it.
    - Otherwise only when predicted gain x expected dwell exceeds the cost of going there and back:
      two switches, and the time lost in the first rollout after the load has returned. Of what
      was never seen the worst is assumed, so a small degree has to earn the risk first.
    - Unless contexts clearly climb (`find_growth`): then the load returns where their line fills
      the small degree, and only the two switches have to be earned until there. A jump that comes
      nevertheless costs one rollout and two switches more than staying would have, once: from then
      on it has been seen, and has to be earned. Where what overflows is lost that is too much, and
      no line is trusted.
    - Queueing costs time and is priced by the throughput model. A degree that cannot hold one
      context of full length is never used: there an engine runs out of memory. One that the
      engine did not take (`SelectorState.refuse`) is left out while another holds the forecast.

    `init` makes the state and `update` returns a decision with the next state; nothing is mutated,
    and equal inputs give equal outputs.

    Example:
        >>> from earl_selector import MODEL_SHAPES, DeviceSpec, MemoryModel
        >>> policy = SelectorPolicy(
        ...     memory=MemoryModel(
        ...         shape=MODEL_SHAPES["smollm2-135m"],
        ...         device=DeviceSpec.cpu(400 * 2**20),
        ...         bytes_per_parameter=2,
        ...         bytes_per_kv_value=2,
        ...         utilisation=1.0,
        ...         reserve_bytes=0,
        ...     ),
        ...     degrees=(1, 3),
        ...     num_devices=3,
        ...     max_context_tokens=2048,
        ... )
        >>> decision, state = policy.update(policy.init(), None)  # before the first rollout
        >>> decision.tp, decision.reason
        (1, 'first step: fastest for 2,048 tokens')
        >>> report = ContextReport(
        ...     step=0,
        ...     num_responses=32,
        ...     mean_context_tokens=400.0,
        ...     max_context_tokens=512,
        ...     resident_tokens=12_800,
        ... )
        >>> decision, state = policy.update(state, report)  # before each rollout that follows
        >>> decision.tp, decision.reason
        (3, 'grows: forecast 12,800 > capacity 6,527 at tp 1')
    """

    memory: CapacityModel
    """Of one engine."""
    degrees: tuple[int, ...]
    """Degrees that may be chosen, in any order."""
    num_devices: int
    """Devices over which the engines spread."""
    max_context_tokens: int
    """Length at which a response is cut."""
    throughput: ThroughputModel | None = None
    """What predicts the time of a rollout; None assumes the order of `UnmeasuredThroughput`."""
    in_seconds: bool = True
    """Whether `throughput` is in tokens per second; of an order that is only assumed nothing is
    predicted until a rollout was timed."""
    switch_s: float | int = 0.0
    """Seconds that a change of degree takes, until a report says how long one took."""
    returns: bool = False
    """Whether the engine is wanted back at its current degree after each rollout, as by another
    stage on the same ranks: to leave it costs a round trip each time."""
    num_responses: int = 1
    """Responses in flight in the first rollout."""
    first_context_tokens: int | None = None
    """Length that they are expected to reach; None expects them to be cut."""
    window: int = 4
    """Reports through which the line of growth is fitted."""
    deployment: Deployment = Deployment.REPLICAS
    """Which engines run at a degree, and whose load a report tells."""
    charges_ranks: bool = False
    """Whether devices that idle are of use to others: degrees are then compared by time x devices
    in use, as by tokens per second and device."""
    overflow_is_lost: bool = False
    """Whether contexts beyond the capacity are cut, instead of waiting."""
    fleet: Fleet = field(init=False, repr=False, compare=False)
    """The engines that the devices form at each degree."""

    def __post_init__(self) -> None:
        check_degrees(
            self.memory,
            self.degrees,
            num_devices=self.num_devices,
            max_context_tokens=self.max_context_tokens,
        )
        if not (self.switch_s >= 0.0 and isfinite(self.switch_s)):
            raise ValueError(f"switch_s must be finite and >= 0, got {self.switch_s}")
        if self.first_context_tokens is not None and not (
            1 <= self.first_context_tokens <= self.max_context_tokens
        ):
            raise ValueError(
                f"first_context_tokens must be 1 to {self.max_context_tokens}, got "
                f"{self.first_context_tokens}"
            )
        if self.num_responses < 1:
            raise ValueError(f"num_responses must be >= 1, got {self.num_responses}")
        if self.window < 2:
            raise ValueError(f"window must be >= 2, as growth needs two reports, got {self.window}")
        fleet = Fleet(memory=self.memory, num_devices=self.num_devices, deployment=self.deployment)
        object.__setattr__(self, "fleet", fleet)

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
        """Decide on the degree of the next rollout.

        Args:
            state: What `init` or the last `update` returned.
            report: The rollout since then; None before the first rollout, and wherever nothing new
                was measured (a run resumed from a checkpoint), which leaves the degree as it is.
            current_tp: The degree that is left now, where it is another than that of the rollout.
            num_responses: Of the next rollout; None for as many as in the last one.

        Raises:
            ValueError: If the report is not later than those before it.
        """
        state = self._remember(state, report, current_tp)
        outlook, fleet = self._look_ahead(state, num_responses), self.fleet
        usable = leave_out_refused(
            self.usable_degrees,
            state.refusals,
            step=state.last_step,
            fleet=fleet,
            num_tokens=outlook.resident_tokens,
        )
        weighing = Weighing(
            current_tp=state.tp,
            forecast_tokens=outlook.resident_tokens,
            alternatives=self._weigh_all(state, outlook, usable),
        )
        tp, reason = weighing.choose_for_once() if self.returns else weighing.choose()
        decision = Decision(
            tp=tp,
            previous_tp=state.tp,
            reason=reason,
            forecast_tokens=outlook.resident_tokens,
            capacity_tokens=fleet.capacity_tokens(tp),
            feasible=fleet.holding_degrees(usable, num_tokens=outlook.resident_tokens),
            steps_to_limit=outlook.steps_to_limit(
                capacity_tokens=max(fleet.capacity_tokens(each) for each in usable),
                max_context_tokens=self.max_context_tokens,
            ),
            alternatives=weighing.alternatives,
            in_seconds=state.time_scale is not None
            or (self.in_seconds and self.throughput is not None),
            inputs=outlook.to_inputs(switch_s=self._find_switch_s(state)),
        )
        return decision, replace(state, tp=tp)

    def _remember(
        self, state: SelectorState, report: ContextReport | None, current_tp: int | None
    ) -> SelectorState:
        """Take in what has happened since the last decision."""
        if report is not None:
            scale = state.time_scale
            if report.rollout_s and state.tp is not None:
                predicted_s = self._predict_s(state.tp, *report.average_load)
                scale = report.rollout_s / predicted_s if isfinite(predicted_s) else scale
            state = replace(
                state,
                reports=append_report(state.reports, report, window=_NUM_REMEMBERED),
                switch_s=state.switch_s if report.switch_s is None else report.switch_s,
                time_scale=scale,
            )
        tp = state.tp if current_tp is None else current_tp
        # What the engine runs at it has taken after all.
        refusals = tuple(each for each in state.refusals if each.tp != tp)
        return replace(state, tp=tp, refusals=refusals)

    def _predict_s(self, tp: int, num_responses: int, context_tokens: int) -> float:
        return self.fleet.predict_rollout_s(
            self.throughput or UnmeasuredThroughput(memory=self.memory),
            tp,
            num_responses=num_responses,
            context_tokens=context_tokens,
        )

    def _find_switch_s(self, state: SelectorState) -> float | int:
        return self.switch_s if state.switch_s is None else state.switch_s

    def _share_in_use(self, tp: int) -> float | int:
        return self.fleet.num_engines(tp) * tp / self.num_devices if self.charges_ranks else 1

    def _cost_s(self, tp: int, num_responses: int, context_tokens: int) -> float:
        return self._share_in_use(tp) * self._predict_s(tp, num_responses, context_tokens)

    def _look_ahead(self, state: SelectorState, num_responses: int | None) -> Outlook:
        reports = state.reports[-self.window :]
        last_responses = max(1, reports[-1].num_responses) if reports else self.num_responses
        return look_ahead(
            reports,
            num_responses=num_responses or last_responses,
            max_context_tokens=self.max_context_tokens,
            first_context_tokens=self.first_context_tokens,
        )

    def _weigh_all(
        self, state: SelectorState, outlook: Outlook, degrees: Sequence[int]
    ) -> tuple[Alternative, ...]:
        # What each would have taken for the past rollouts.
        loads = [report.average_load for report in state.reports]
        past_s = {tp: [self._cost_s(tp, *load) for load in loads] for tp in degrees}
        return tuple(self._weigh(state, outlook, tp, past_s) for tp in degrees)

    def _weigh(
        self,
        state: SelectorState,
        outlook: Outlook,
        tp: int,
        past_s: Mapping[int, Sequence[float]],
    ) -> Alternative:
        switch_s = self._find_switch_s(state)
        scale = 1.0 if state.time_scale is None else state.time_scale
        capacity_tokens = self.fleet.capacity_tokens(tp)
        likely_s = [
            self._predict_s(tp, outlook.num_responses, context_tokens)
            for context_tokens in outlook.likely_context_tokens
        ]
        dwell_steps, return_s = (
            (1.0, 0.0) if self.returns else self._look_back(state, outlook, tp, past_s)
        )
        return Alternative(
            tp=tp,
            capacity_tokens=capacity_tokens,
            rollout_s=scale * fmean(likely_s),
            dwell_steps=min(dwell_steps, outlook.steps_within(capacity_tokens)),
            round_trip_s=0.0 if tp == state.tp else 2.0 * switch_s + scale * return_s,
            share_in_use=self._share_in_use(tp),
        )

    def _look_back(
        self,
        state: SelectorState,
        outlook: Outlook,
        tp: int,
        past_s: Mapping[int, Sequence[float]],
    ) -> tuple[float, float]:
        """Return how long `tp` stays better than the current degree, and what is lost thereafter.

        Lost is the first rollout that wants the current degree back; until one has been seen, all
        responses of full length, as nothing else is known of what may come. Nothing is lost where
        contexts wait and their growth tells beforehand when that will be.
        """
        if state.tp is None or state.tp not in past_s or not state.reports:
            return 1.0, 0.0
        losses_s = [a - b for a, b in zip(past_s[tp], past_s[state.tp], strict=True)]
        lost_s = next((loss_s for loss_s in reversed(losses_s) if loss_s >= 0.0), None)
        if lost_s is None:
            num_steps = self._foresee_steps(state, outlook, tp)
            if num_steps is not None and not self.overflow_is_lost:
                return float(num_steps), 0.0
            longest = state.reports[-1].average_load[0], self.max_context_tokens
            lost_s = self._cost_s(tp, *longest) - self._cost_s(state.tp, *longest)
        return expect_dwell_steps([loss_s < 0.0 for loss_s in losses_s]), max(0.0, lost_s)

    def _foresee_steps(self, state: SelectorState, outlook: Outlook, tp: int) -> int | None:
        """Return in how many steps contexts outgrow a degree; None if they do not clearly grow."""
        growth = find_growth(
            [report.step for report in state.reports],
            [report.average_load[1] for report in state.reports],
            shortest=_WINDOWS_OF_GROWTH * self.window,
        )
        capacity_tokens = self.fleet.capacity_tokens(tp) // outlook.num_responses
        return None if growth is None else growth.steps_until(capacity_tokens)
