"""Measuring a profile table point by point, within a time if need be."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import inf

from earl_selector import ProfilePoint, ProfileTable

from earl_trainer.profiling.meter import Meter
from earl_trainer.types import RunFailedError


def measure_profile(
    meter: Meter,
    table: ProfileTable,
    *,
    num_engines: Mapping[int, int],
    keep: Callable[[ProfileTable], None],
    budget_s: float = inf,
) -> ProfileTable:
    """Measure what a table lacks, point by point.

    With a budget each degree gets an equal share of the time that is left. Its smallest load is
    always measured; then, as long as it is expected to fit, the first of what is left in the order
    of what a run is likely to ask: most responses first, short contexts first. What a change of
    degree takes is measured last and comes on top. Afterwards the engine holds no context.

    Args:
        meter: Of the engine.
        table: Empty, or what was measured before.
        num_engines: Degree -> engines that generate side by side, each with a point's responses.
        keep: Called with the table each time it has grown, so that nothing measured is lost.
        budget_s: Seconds that all points may take; infinite by default.

    Returns:
        The table with what is new; without the time of a change where the engine refuses one.

    Raises:
        RunFailedError: If the engine cannot change its degree.
    """
    degrees = table.grid.degrees
    if is_finished(table):
        return table
    end_s = meter.clock() + budget_s

    for index, tp in enumerate(degrees):
        start_s = meter.clock()
        share_s = (end_s - start_s) / (len(degrees) - index)
        switch = meter.engine.resize(tp)
        if switch is not None and not switch.done:
            raise RunFailedError(f"nothing can be measured at tp {tp}: {switch.problem}")
        for point in _measure_degree(
            meter, table, tp, num_engines=num_engines[tp], end_s=start_s + share_s
        ):
            table = table.add(point)
            keep(table)
    if lacks_switch(table):
        table = replace(table, switch_s=meter.switch_s(degrees))
        if table.switch_s is not None:
            keep(table)
    meter.engine.load_weights(meter.engine.version)
    return table


def lacks_switch(table: ProfileTable) -> bool:
    """Tell whether a change of degree is possible and was not timed."""
    return table.switch_s is None and len(table.grid.degrees) > 1


def is_finished(table: ProfileTable) -> bool:
    """Tell whether there is nothing left to measure."""
    return not table.missing() and not lacks_switch(table)


def _measure_degree(
    meter: Meter, table: ProfileTable, tp: int, *, num_engines: int, end_s: float
) -> Iterator[ProfilePoint]:
    left = [key for key in table.missing() if key[0] == tp]
    left.sort(key=lambda key: (-key[1], key[2]))
    s_per_token = 0.0
    while left:
        start_s = meter.clock()
        likely = (key for key in left if start_s + s_per_token * _num_tokens(key) <= end_s)
        chosen = next(likely, None) if s_per_token else min(left, key=_num_tokens)
        if chosen is None:
            return
        left.remove(chosen)
        _, num_responses, context_tokens = chosen
        rate = meter.tokens_per_s(
            num_responses=num_engines * num_responses,
            context_tokens=context_tokens,
            deadline_s=end_s,
        )
        s_per_token = (meter.clock() - start_s) / _num_tokens(chosen)
        yield ProfilePoint(
            tp=tp,
            num_responses=num_responses,
            context_tokens=context_tokens,
            tokens_per_s_per_device=rate / (num_engines * tp),
        )


def _num_tokens(key: tuple[int, int, int]) -> int:
    return key[1] * key[2]
