"""The simulated pipeline of asynchronous training beside what AReaL reports."""

from collections.abc import Sequence

from bench_section import Row, Section
from benchmarking import Figure
from earl_trainer.planning.replays import (
    Replay,
    Speedup,
    replay_scaling,
    replay_table_1,
    replay_table_2,
    replay_table_7,
)

GOAL_PERCENT = 10
SEED = 0


def throughput_rows(table: str, replays: Sequence[Replay]) -> list[Row]:
    """Show each published rate with the simulated one."""
    return [
        {
            "table": table,
            "eta": f"{each.eta:g}",
            "published_tokens_per_s": each.published_tokens_per_s,
            "simulated_tokens_per_s": round(each.figures.trained_tokens_per_s),
            "error_percent": round(100 * each.error, 1),
            "fitted": each.fitted,
            "mean_staleness": round(each.figures.mean_staleness, 2),
            "max_staleness": each.figures.max_staleness,
            "rollout_idle_share": round(each.figures.rollout_idle_share, 3),
            "training_idle_share": round(each.figures.training_idle_share, 3),
        }
        for each in replays
    ]


def speedup_rows(table: str, speedups: Sequence[Speedup]) -> list[Row]:
    """Show how much faster asynchronous runs are simulated to be."""
    return [
        {
            "table": table,
            "model": each.name,
            "num_devices": each.num_devices,
            "over_same_split": round(each.over_same_split, 2),
            "over_all_devices": round(each.over_all_devices, 2),
            "published": None if each.published is None else round(each.published, 2),
        }
        for each in speedups
    ]


def make_figures(
    table_2: Sequence[Replay], table_7: Sequence[Replay], table_1: Sequence[Speedup]
) -> dict[str, Figure]:
    """Return by how much predictions miss; only those of table 2 have a goal."""
    figures = {
        f"table_2_error_at_eta_{each.eta:g}": Figure(
            value=100 * abs(each.error),
            unit="%",
            goal="" if each.fitted else f"<= {GOAL_PERCENT}",
        )
        for each in table_2
    }
    predicted = [each for each in table_7 if not each.fitted]
    figures["table_7_worst_error"] = Figure(
        value=100 * max(abs(each.error) for each in predicted), unit="%", goal=""
    )
    for each in table_1:
        unit = f"times ({each.published:.2f})"
        figures[f"table_1_speedup_{each.name}"] = Figure(
            value=each.over_same_split, unit=unit, goal=""
        )
    return figures


def measure(quick: bool) -> Section:
    """Simulate everything; quick takes fewer steps and leaves the scaling out."""
    run = {"num_steps": 40 if quick else 80, "seed": SEED}
    table_2, table_7 = replay_table_2(**run), replay_table_7(**run)
    table_1 = replay_table_1(**run)
    scaling = () if quick else replay_scaling(**run)
    rows = [
        *throughput_rows("2", table_2),
        *throughput_rows("7", table_7),
        *speedup_rows("1", table_1),
        *speedup_rows("scaling", scaling),
    ]
    return Section(figures=make_figures(table_2, table_7, table_1), rows=rows)
