"""A profile in words and columns."""

from earl_selector import ProfilePoint, ProfileTable

from earl_trainer.cli.columns import align

_LEGEND = """\
tok/s: generated tokens per second and device. -: the engine could not run it. ?: not measured yet.
"""


def describe_table(table: ProfileTable) -> str:
    """Lay a profile out: one line per load, one column per degree."""
    subject, degrees = table.subject, table.grid.degrees
    rates = {point.key: point.tokens_per_s_per_device for point in table.points}
    rows: list[tuple[str, ...]] = [
        ("responses", "context", "resident", *(f"tp {tp}: tok/s" for tp in degrees), "fastest")
    ]
    for num_responses in table.grid.num_responses:
        for context_tokens in table.grid.context_tokens:
            found = {tp: rates.get((tp, num_responses, context_tokens)) for tp in degrees}
            ran = {tp: rate for tp, rate in found.items() if rate}
            rows.append((
                f"{num_responses:,}",
                f"{context_tokens:,}",
                f"{num_responses * context_tokens:,}",
                *(_format_rate(rate) for rate in found.values()),
                f"tp {max(ran, key=lambda tp: ran[tp])}" if ran else "-",
            ))
    head = f"{subject.model}\n{subject.device}\n{subject.engine}\n"
    return f"{head}\n{align(rows)}\n\n{_LEGEND}{describe_switch(table)}\n"


def describe_point(point: ProfilePoint) -> str:
    """Put one measurement into a line."""
    rate = point.tokens_per_s_per_device
    speed = f"{_format_rate(rate)} tok/s per device" if rate else "could not be run"
    return f"tp {point.tp}, {point.num_responses:,} x {point.context_tokens:,} tokens: {speed}"


def describe_switch(table: ProfileTable) -> str:
    """Say what a change of degree takes."""
    if len(table.grid.degrees) == 1:
        return "one degree: nothing to switch to"
    if table.switch_s is None:
        return "a change of degree: not measured yet"
    return f"a change of degree takes {table.switch_s:.3g} s"


def _format_rate(rate: float | None) -> str:
    if rate is None:
        return "?"
    if rate == 0.0:
        return "-"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
