"""Which tensor-parallel degree the next rollout runs at."""

from dataclasses import dataclass
from typing import Final, final

from earl_selector.decision import Decision
from earl_selector.memory import MemoryModel
from earl_selector.report import ContextReport
from earl_selector.state import SelectorState
from earl_selector.trend import Trend, fit_trend

_MIB: Final = 2**20


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorPolicy:
    """Keep the engine at the smallest degree that holds the resident tokens to come.

    Resident tokens (responses x context) decide, not the average context as in EARL
    (arXiv:2510.05943, section 2): in each of the 29 measured cells of EARL's figure 3 the larger
    degree is the faster one exactly where resident tokens exceed the capacity of the smaller one.

    - Up at once, before the rollout that would overflow: an overflow costs queueing or memory.
    - Down late: only when the forecast has stayed under `margin` x the smaller degree's capacity
      for `patience` updates and is not growing, because a switch costs time and may be undone.
    - If no degree holds the forecast, the largest is taken and the decision says that it queues.
    - A degree that cannot hold one context of full length is never used: there the engine fails.

    `init` makes the state and `update` returns a decision with the next state; nothing is mutated,
    and equal inputs give equal outputs.

    Example:
        >>> from earl_selector import MODEL_SHAPES, DeviceSpec
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
        (1, 'first step: smallest that holds 2,048 tokens')
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

    memory: MemoryModel
    degrees: tuple[int, ...]
    """Degrees that may be chosen, in any order."""
    num_devices: int
    """Devices over which the one engine may spread."""
    max_context_tokens: int
    """Length at which a response is cut."""
    margin: float = 0.8
    """Fraction of a smaller degree's capacity under which the forecast counts as low."""
    patience: int = 3
    """Low updates in a row before the degree is lowered."""
    window: int = 4
    """Reports through which the line of growth is fitted."""

    def __post_init__(self) -> None:
        if not self.degrees or len(set(self.degrees)) != len(self.degrees):
            raise ValueError(f"degrees must be distinct and at least one, got {self.degrees}")
        for tp in self.degrees:
            self.memory.check_degree(tp)
            if tp > self.num_devices:
                raise ValueError(
                    f"tp {tp} needs {tp} devices, more than the {self.num_devices} there are"
                )
        if self.max_context_tokens < 1:
            raise ValueError(f"max_context_tokens must be >= 1, got {self.max_context_tokens}")
        if not 0.0 < self.margin <= 1.0:
            raise ValueError(f"margin must be in (0, 1], got {self.margin}")
        if self.patience < 1:
            raise ValueError(f"patience must be >= 1, got {self.patience}")
        if self.window < 2:
            raise ValueError(f"window must be >= 2, as growth needs two reports, got {self.window}")
        if not self.usable_degrees:
            raise ValueError(self._explain_infeasible())

    @property
    def usable_degrees(self) -> tuple[int, ...]:
        """The degrees that hold at least one context of full length, ascending."""
        return tuple(
            tp
            for tp in sorted(self.degrees)
            if self.memory.capacity_tokens(tp) >= self.max_context_tokens
        )

    def init(self) -> SelectorState:
        """Return the state before the first decision."""
        return SelectorState(tp=None, reports=(), num_low_updates=0, low_peak_tokens=0)

    def update(
        self, state: SelectorState, report: ContextReport | None
    ) -> tuple[Decision, SelectorState]:
        """Decide on the degree of the next rollout.

        Args:
            state: What `init` or the last `update` returned.
            report: The rollout since then; None before the first rollout, and wherever nothing new
                was measured (a run resumed from a checkpoint), which leaves the degree as it is.

        Raises:
            ValueError: If the report is not later than those before it.
        """
        reports = self._append_report(state.reports, report)
        residents = _fit_reports(reports, [each.resident_tokens for each in reports])
        forecast_tokens = self.max_context_tokens if residents is None else residents.next_tokens
        if report is None:
            num_low_updates, low_peak_tokens = state.num_low_updates, state.low_peak_tokens
        else:
            num_low_updates, low_peak_tokens = self._count_low(state, forecast_tokens)
        lower: tuple[int, ...] = ()
        if num_low_updates >= self.patience and residents is not None and not residents.is_growing:
            assert state.tp is not None
            lower = self._list_lower(state.tp, low_peak_tokens)
        tp, reason = self._choose(state.tp, forecast_tokens, lower=lower)
        decision = Decision(
            tp=tp,
            previous_tp=state.tp,
            reason=reason,
            forecast_tokens=forecast_tokens,
            capacity_tokens=self.memory.capacity_tokens(tp),
            feasible=self._list_holding(forecast_tokens),
            steps_to_limit=self._count_steps_to_limit(reports, residents),
        )
        keeps_count = tp == state.tp
        return decision, SelectorState(
            tp=tp,
            reports=reports,
            num_low_updates=num_low_updates if keeps_count else 0,
            low_peak_tokens=low_peak_tokens if keeps_count else 0,
        )

    def _append_report(
        self, reports: tuple[ContextReport, ...], report: ContextReport | None
    ) -> tuple[ContextReport, ...]:
        if report is None:
            return reports
        if reports and report.step <= reports[-1].step:
            raise ValueError(
                f"reports must come in rising steps, got step {report.step} "
                f"after step {reports[-1].step}"
            )
        return (*reports, report)[-self.window :]

    def _list_holding(self, num_tokens: int) -> tuple[int, ...]:
        return tuple(
            tp for tp in self.usable_degrees if self.memory.capacity_tokens(tp) >= num_tokens
        )

    def _list_lower(self, current_tp: int, num_tokens: int) -> tuple[int, ...]:
        return tuple(
            tp
            for tp in self.usable_degrees
            if tp < current_tp and self.margin * self.memory.capacity_tokens(tp) >= num_tokens
        )

    def _count_low(self, state: SelectorState, forecast_tokens: int) -> tuple[int, int]:
        if state.tp is None or not self._list_lower(state.tp, forecast_tokens):
            return 0, 0
        return state.num_low_updates + 1, max(state.low_peak_tokens, forecast_tokens)

    def _choose(
        self, current_tp: int | None, forecast_tokens: int, *, lower: tuple[int, ...]
    ) -> tuple[int, str]:
        holding = self._list_holding(forecast_tokens)
        if not holding:
            tp = self.usable_degrees[-1]
            capacity_tokens = self.memory.capacity_tokens(tp)
            return tp, (
                f"queues: forecast {forecast_tokens:,} > capacity {capacity_tokens:,} at tp {tp}, "
                "the largest"
            )
        if len(self.usable_degrees) == 1:
            return holding[0], (
                f"only degree: holds {forecast_tokens:,} of "
                f"{self.memory.capacity_tokens(holding[0]):,} tokens"
            )
        if current_tp is None:
            return holding[0], f"first step: smallest that holds {forecast_tokens:,} tokens"
        if current_tp not in self.usable_degrees:
            return holding[0], f"tp {current_tp} is not among the usable {self.usable_degrees}"
        capacity_tokens = self.memory.capacity_tokens(current_tp)
        if current_tp not in holding:
            return holding[0], (
                f"grows: forecast {forecast_tokens:,} > capacity {capacity_tokens:,} "
                f"at tp {current_tp}"
            )
        if lower:
            capacity_tokens = self.memory.capacity_tokens(lower[0])
            return lower[0], (
                f"shrinks: forecast {forecast_tokens:,} is well under "
                f"capacity {capacity_tokens:,} at tp {lower[0]}"
            )
        return current_tp, f"holds {forecast_tokens:,} of {capacity_tokens:,} tokens"

    def _count_steps_to_limit(
        self, reports: tuple[ContextReport, ...], residents: Trend | None
    ) -> int | None:
        contexts = _fit_reports(reports, [each.max_context_tokens for each in reports])
        if residents is None or contexts is None:
            return None
        largest_tokens = self.memory.capacity_tokens(self.usable_degrees[-1])
        waits = (
            residents.steps_until(largest_tokens),
            contexts.steps_until(self.max_context_tokens),
        )
        return min((wait for wait in waits if wait is not None), default=None)

    def _explain_infeasible(self) -> str:
        needs = {
            tp: self.memory.required_memory_bytes(tp, self.max_context_tokens)
            for tp in self.degrees
        }
        best_tp = min(needs, key=lambda tp: needs[tp])
        device = self.memory.device
        return (
            f"no tp of {self.degrees} holds one context of {self.max_context_tokens:,} tokens on "
            f"{device.name} with {device.memory_bytes:,} bytes; the least that does is "
            f"{needs[best_tp]:,} bytes ({-(-needs[best_tp] // _MIB):,} MiB) per device "
            f"at tp {best_tp}"
        )


def _fit_reports(reports: tuple[ContextReport, ...], tokens: list[int]) -> Trend | None:
    if not reports:
        return None
    return fit_trend([report.step for report in reports], tokens)
