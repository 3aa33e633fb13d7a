"""The choice between degrees, given what each is predicted to take."""

from dataclasses import dataclass
from typing import final

from earl_selector.decision import Alternative


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Weighing:
    """What speaks for the fastest degree and what against leaving the current one."""

    current_tp: int | None
    """The degree of the last rollout; None before the first."""
    forecast_tokens: int
    """Resident tokens expected in the next rollout."""
    alternatives: tuple[Alternative, ...]
    """The usable degrees, ascending."""

    @property
    def fastest(self) -> Alternative:
        """Return the degree whose predicted rollout costs least, of equals the smallest.

        Of those that hold the forecast, if any does: queueing is what degrees are changed to avoid.
        """
        holding = [each for each in self.alternatives if self._holds(each)]
        return min(holding or self.alternatives, key=lambda each: (each.cost_s, each.tp))

    @property
    def current(self) -> Alternative | None:
        """Return the current degree, unless there is none or it may not be used."""
        return next((each for each in self.alternatives if each.tp == self.current_tp), None)

    def choose(self) -> tuple[int, str]:
        """Return the degree of the next rollout and why, in one line for people."""
        fastest, current = self.fastest, self.current
        if current is None:
            return fastest.tp, self._explain(fastest)
        overflows = not self._holds(current) and fastest.tp > current.tp
        if overflows and (self._holds(fastest) or fastest.cost_s < current.cost_s):
            return fastest.tp, (
                f"grows: forecast {self.forecast_tokens:,} > capacity {current.capacity_tokens:,} "
                f"at tp {current.tp}"
            )
        faster = [
            each
            for each in self.alternatives
            if each.cost_s < current.cost_s and (self._holds(each) or not self._holds(current))
        ]
        if not faster:
            return current.tp, self._explain(current)
        best = max(faster, key=lambda each: each.net_gain_s(current))
        share = 1.0 - best.cost_s / current.cost_s
        saving = f"tp {best.tp} saves {share:.0%} of a rollout, for about {best.dwell_steps:.0f}"
        # What a spell saves has to pay for the way there and, once it is over, for the way back.
        if best.net_gain_s(current) > 0.0:
            return best.tp, f"{saving} rollouts: worth the switch from tp {current.tp}"
        return current.tp, f"{saving} rollouts: not worth a switch from tp {current.tp}"

    def choose_for_once(self) -> tuple[int, str]:
        """Return the degree of a piece of work after which the engine goes back, and why.

        Whoever leaves the current degree pays for the way there and back each time, so that nothing
        but the sum counts.
        """
        costs_s = {each.tp: each.cost_s + each.round_trip_s for each in self.alternatives}
        best = min(self.alternatives, key=lambda each: (costs_s[each.tp], each.tp))
        current = self.current
        if current is None or costs_s[best.tp] >= current.cost_s:
            chosen = current or best
            return chosen.tp, self._explain(chosen)
        share = 1.0 - costs_s[best.tp] / current.cost_s
        return best.tp, f"tp {best.tp} saves {share:.0%}, the way there and back included"

    def _holds(self, each: Alternative) -> bool:
        return self.forecast_tokens <= each.capacity_tokens

    def _explain(self, chosen: Alternative) -> str:
        forecast, capacity = f"{self.forecast_tokens:,}", f"{chosen.capacity_tokens:,}"
        if self.forecast_tokens > chosen.capacity_tokens:
            return f"queues: forecast {forecast} > capacity {capacity} at tp {chosen.tp}"
        if len(self.alternatives) == 1:
            return f"only degree: holds {forecast} of {capacity} tokens"
        if self.current_tp is None:
            return f"first step: fastest for {forecast} tokens"
        if self.current is None:
            usable = tuple(each.tp for each in self.alternatives)
            return f"tp {self.current_tp} is not among the usable {usable}"
        return f"holds {forecast} of {capacity} tokens"
