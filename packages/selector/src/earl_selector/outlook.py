"""What the next rollout will ask of the engine, from the rollouts so far."""

from dataclasses import dataclass
from math import ceil, inf
from typing import final

from earl_selector.decision import Inputs
from earl_selector.report import ContextReport
from earl_selector.trend import Trend, fit_trend, list_ratios_to_line


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """The load of the next rollout and where it is heading."""

    num_responses: int
    resident_tokens: int
    likely_context_tokens: tuple[int, ...]
    """Lengths that the responses may have, all equally likely as far as is known."""
    residents: Trend | None
    """The line through the latest resident tokens; None before the first rollout."""
    contexts: Trend | None
    """The line through the latest longest contexts."""

    def to_inputs(self, *, switch_s: float | int | None) -> Inputs:
        """Return what a decision is made from, with what a change of degree is taken to cost."""
        return Inputs(
            num_responses=self.num_responses,
            context_tokens=ceil(self.resident_tokens / self.num_responses),
            growth_tokens_per_step=(
                None if self.residents is None else self.residents.growth_tokens_per_step
            ),
            switch_s=switch_s,
        )

    def steps_within(self, capacity_tokens: int) -> float:
        """Return how long the growth leaves room; infinity without growth or any room."""
        if self.residents is None or self.resident_tokens > capacity_tokens:
            return inf
        num_steps = self.residents.steps_until(capacity_tokens)
        return inf if num_steps is None else float(num_steps)

    def steps_to_limit(self, *, capacity_tokens: int, max_context_tokens: int) -> int | None:
        """Return in how many steps the tokens reach a capacity or the contexts their limit.

        Returns:
            The earlier of the two; 0 if one is reached already, None if neither is in sight.
        """
        if self.residents is None or self.contexts is None:
            return None
        waits = (
            self.residents.steps_until(capacity_tokens),
            self.contexts.steps_until(max_context_tokens),
        )
        return min((wait for wait in waits if wait is not None), default=None)


def look_ahead(
    reports: tuple[ContextReport, ...],
    *,
    num_responses: int,
    max_context_tokens: int,
    first_context_tokens: int | None = None,
) -> Outlook:
    """Forecast the next rollout: the latest tokens plus their growth, never below the latest.

    Growth is that of contexts: earlier tokens are scaled to the responses of the next rollout. No
    response outgrows its limit, so neither does the forecast, unless what was seen already did.
    Likely lengths lie about the forecast as the latest rollouts lay about their line.

    Args:
        reports: The latest rollouts, oldest first.
        num_responses: Responses of the next rollout, at least one.
        max_context_tokens: Length at which a response is cut.
        first_context_tokens: Length that those of the first rollout are expected to reach; None
            expects them to be cut.
    """
    if not reports:
        context_tokens = first_context_tokens or max_context_tokens
        return Outlook(
            num_responses=num_responses,
            resident_tokens=num_responses * context_tokens,
            likely_context_tokens=(context_tokens,),
            residents=None,
            contexts=None,
        )
    steps = [report.step for report in reports]
    tokens = [
        report.resident_tokens * num_responses // max(1, report.num_responses) for report in reports
    ]
    residents = fit_trend(steps, tokens)
    limit_tokens = max(tokens[-1], num_responses * max_context_tokens)
    likely_tokens = [
        min(residents.next_tokens * ratio, limit_tokens)
        for ratio in list_ratios_to_line(steps, tokens)
    ]
    return Outlook(
        num_responses=num_responses,
        resident_tokens=min(residents.next_tokens, limit_tokens),
        likely_context_tokens=tuple(max(1, ceil(each / num_responses)) for each in likely_tokens),
        residents=residents,
        contexts=fit_trend(steps, [report.max_context_tokens for report in reports]),
    )


def append_report(
    reports: tuple[ContextReport, ...], report: ContextReport | None, *, window: int
) -> tuple[ContextReport, ...]:
    """Add the latest rollout, if there is one, and keep `window` of them.

    Raises:
        ValueError: If it is not later than those before.
    """
    if report is None:
        return reports
    if reports and report.step <= reports[-1].step:
        raise ValueError(
            f"reports must come in rising steps, got step {report.step} "
            f"after step {reports[-1].step}"
        )
    return (*reports, report)[-window:]
