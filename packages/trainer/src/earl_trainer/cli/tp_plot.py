"""A picture of a plan of tensor-parallel degrees."""

from math import log2, nan
from pathlib import Path

from earl_selector.tp_plan import TpForecast, TpPlan, double_from
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from earl_trainer.cli.tp_table import format_tokens

_POINTS_PER_DOUBLING = 24


def draw_plan(plan: TpPlan, target: Path) -> None:
    """Draw speed and memory by context; where responses queue, lines are dotted.

    Args:
        plan: What to draw, from its shortest context to its longest.
        target: File to write; its suffix is the format.

    Raises:
        ValueError: If the file cannot be written or its suffix is no format of a picture.
    """
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    device = plan.memory.device
    name = plan.memory.shape.name
    figure.suptitle(f"{name} on {device.name}, {plan.num_responses} responses per engine")
    speed, memory = figure.subplots(1, 2)
    for index, tp in enumerate(tp for tp in plan.degrees if plan.wall_tokens(tp) > 0):
        color = f"C{index}"
        forecasts = [plan.forecast(tp, tokens) for tokens in _dense(plan.contexts)]
        rates = [each.tokens_per_s_per_device if each.fits else None for each in forecasts]
        used = [each.used_bytes / 1e9 if each.fits else None for each in forecasts]
        _line(speed, plan, forecasts, rates, color)
        _line(memory, plan, forecasts, used, color)
        for panel in (speed, memory):
            panel.axvline(plan.wall_tokens(tp), color=color, lw=3, alpha=0.35)
    for crossover in plan.crossovers():
        speed.axvline(crossover.context_tokens, color="0.4", linestyle="--", lw=1)
        speed.annotate(
            f" tp {crossover.to_tp} faster\n from {crossover.context_tokens:,}",
            (crossover.context_tokens, 0.97), xycoords=("data", "axes fraction"), va="top",
            fontsize="small",
        )  # fmt: skip
    memory.axhline(device.memory_bytes / 1e9, color="0.2", lw=1)
    memory.annotate(
        "the device has", (0.02, device.memory_bytes / 1e9), va="bottom", fontsize="small",
        xycoords=("axes fraction", "data"),
    )  # fmt: skip
    speed.set(
        title="speed (dotted: responses queue; thick: out of memory)",
        ylabel="tokens per second and device",
    )
    memory.set(
        title="memory (dotted: responses queue; thick: out of memory)", ylabel="GB of a device"
    )
    for panel in (speed, memory):
        _axis(panel, plan)
    try:
        figure.savefig(target, dpi=120)
    except OSError as error:
        raise ValueError(f"cannot write the picture {str(target)!r}: {error.strerror}") from error


def _line(
    panel: Axes,
    plan: TpPlan,
    forecasts: list[TpForecast],
    values: list[float | None],
    color: str,
) -> None:
    tp = forecasts[0].tp
    for queues, style in ((False, "-"), (True, ":")):
        # Matplotlib leaves a gap at NaN.
        shown = [
            nan if value is None or (each.num_running < plan.num_responses) != queues
            else value
            for each, value in zip(forecasts, values, strict=True)
        ]  # fmt: skip
        contexts = [each.context_tokens for each in forecasts]
        panel.plot(contexts, shown, style, color=color, label=None if queues else f"tp {tp}")


def _axis(panel: Axes, plan: TpPlan) -> None:
    low, high = plan.contexts[0], plan.contexts[-1]
    ticks = double_from(low, high)
    panel.set_xscale("log", base=2)
    panel.set_xticks(ticks, [format_tokens(tokens) for tokens in ticks])
    panel.set(xlabel="context of a response, tokens", ylim=(0, None))
    panel.set_xlim(low / 1.1, high * 1.1)
    panel.grid(visible=True, color="0.92")
    panel.legend(loc="upper right", fontsize="small")


def _dense(contexts: tuple[int, ...]) -> list[int]:
    low, high = contexts[0], contexts[-1]
    num_points = max(1, round(_POINTS_PER_DOUBLING * log2(high / low)))
    return sorted({round(low * (high / low) ** (i / num_points)) for i in range(num_points + 1)})
