"""Degrees that an engine did not take, and when they are worth another try."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from earl_selector.deployment import Fleet


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A degree that was decided on and that the engine did not take."""

    tp: int
    step: int
    """Of the last rollout before it; -1 where there was none."""
    num_times: int = 1
    """How often in a row."""

    def is_over(self, step: int) -> bool:
        """Tell whether, after the rollout of a step, the degree may be tried again.

        After 2^n rollouts, n being the number of refusals: binary exponential backoff. Source:
        Metcalfe and Boggs 1976, "Ethernet", CACM 19(7), section 4.
        """
        return step - self.step >= 2**self.num_times


def leave_out_refused(
    degrees: tuple[int, ...],
    refusals: Sequence[Refusal],
    *,
    step: int,
    fleet: Fleet,
    num_tokens: int,
) -> tuple[int, ...]:
    """Return those of `degrees` that may be chosen: refused ones only for want of another.

    Args:
        degrees: Ascending.
        refusals: One per degree that was refused.
        step: Of the latest rollout.
        fleet: Knows what each degree holds.
        num_tokens: That are to be held. Where no other degree holds them, a refused one that does
            is tried again, now and then.
    """
    refused = {each.tp for each in refusals}
    others = tuple(tp for tp in degrees if tp not in refused)
    if fleet.holding_degrees(others, num_tokens=num_tokens):
        return others
    waiting = {each.tp for each in refusals if not each.is_over(step)}
    again = tuple(tp for tp in degrees if tp in refused - waiting)
    holding = fleet.holding_degrees(again, num_tokens=num_tokens)
    return tuple(sorted((*others, *holding))) or degrees
