"""How simulated pipelines of asynchronous training are printed."""

from collections.abc import Mapping, Sequence
from typing import Final

from earl_trainer.cli.columns import align
from earl_trainer.planning.areal import MAX_SCALING_SPEEDUP
from earl_trainer.planning.figures import PipelineFigures
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.replays import Replay, Speedup

_NOTES: Final = """\
tokens/s: used by training, per second of everything. Staleness: version trained at minus version
submitted at. Idle: rollout devices with nothing in flight, training devices without a batch, both
at publication. Not counted: prompts, reward computation, devices unevenly loaded, failures.
"""
_PAPER_NOTES: Final = """\
Fitted: three speeds, to the three rates marked so. Assumed and not in the paper: the tail of the
lengths, what those of one prompt have in common, slots, publication. Table 7 has its training
speed from eta = 16 and an unknown batch. docs/planning_async.md says more.
"""


def format_eta(eta: float | int) -> str:
    """Write an eta as it is given: `2`, `inf`."""
    return f"{eta:g}"


def describe_forecast(
    model: PipelineModel,
    figures: Mapping[float | int, PipelineFigures],
    *,
    synchronous: PipelineFigures,
    shared: PipelineFigures,
) -> str:
    """Write what each eta comes to.

    Args:
        model: What was simulated.
        figures: Eta -> its figures.
        synchronous: Figures of the same devices at eta = 0.
        shared: Figures where all devices generate and then all train.
    """
    head = [
        "eta", "tokens/s", "x eta 0", "x shared", "stale mean", "max", "rollout idle",
        "training idle", "in flight",
    ]  # fmt: skip
    rows = [
        [
            format_eta(eta),
            f"{each.trained_tokens_per_s:,.0f}",
            f"{each.trained_tokens_per_s / synchronous.trained_tokens_per_s:.2f}",
            f"{each.trained_tokens_per_s / shared.trained_tokens_per_s:.2f}",
            f"{each.mean_staleness:.2f}",
            str(each.max_staleness),
            f"{each.rollout_idle_share:.1%}",
            f"{each.training_idle_share:.1%}",
            f"{each.sequences_per_device:.1f}",
        ]
        for eta, each in figures.items()
    ]
    return (
        f"{model.num_rollout_devices} rollout and {model.num_training_devices} training devices, "
        f"{model.batch_groups} x {model.group_size} sequences of {model.lengths.mean_tokens:,.0f} "
        f"tokens a step\n{align([head, *rows])}\n\n"
        f"x shared: over all devices generating and then all training, "
        f"{shared.trained_tokens_per_s:,.0f} tokens/s.\n"
        f"Upper bounds: generation {model.max_generated_tokens_per_s:,.0f} tokens/s with all slots "
        f"in use, training {model.batch_tokens / model.training_s:,.0f}.\n{_NOTES}"
    )


def describe_paper(
    table_2: Sequence[Replay],
    table_7: Sequence[Replay],
    table_1: Sequence[Speedup],
    scaling: Sequence[Speedup],
) -> str:
    """Write the replay of AReaL's figures."""
    parts = (
        ("AReaL table 2: 1.5B on 128 GPUs, up to 27,648 tokens", _replay_rows(table_2)),
        ("AReaL table 7: 1.5B on 8 GPUs, up to 8,192 tokens", _replay_rows(table_7)),
        ("AReaL table 1: synchronous over asynchronous hours", _speedup_rows(table_1)),
        (
            f"Strong scaling (published: up to {MAX_SCALING_SPEEDUP:g}, on 512 GPUs at the most)",
            _speedup_rows(scaling),
        ),
    )
    tables = [f"{title}\n{align(rows)}\n" for title, rows in parts]
    return "\n".join([*tables, _PAPER_NOTES + _NOTES])


def _replay_rows(replays: Sequence[Replay]) -> list[list[str]]:
    head = [
        "eta", "published tokens/s", "simulated", "error", "", "stale mean", "max", "rollout idle",
        "training idle",
    ]  # fmt: skip
    return [
        head,
        *(
            [
                format_eta(each.eta),
                f"{each.published_tokens_per_s:,.0f}",
                f"{each.figures.trained_tokens_per_s:,.0f}",
                f"{each.error:+.1%}",
                "fitted" if each.fitted else "predicted",
                f"{each.figures.mean_staleness:.2f}",
                str(each.figures.max_staleness),
                f"{each.figures.rollout_idle_share:.1%}",
                f"{each.figures.training_idle_share:.1%}",
            ]
            for each in replays
        ),
    ]


def _speedup_rows(speedups: Sequence[Speedup]) -> list[list[str]]:
    return [
        ["model", "GPUs", "over eta 0", "over all GPUs in turn", "published"],
        *(
            [
                each.name,
                str(each.num_devices),
                f"{each.over_same_split:.2f}",
                f"{each.over_all_devices:.2f}",
                "" if each.published is None else f"{each.published:.2f}",
            ]
            for each in speedups
        ),
    ]
