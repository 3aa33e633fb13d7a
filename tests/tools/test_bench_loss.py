"""The loss in chunks beside the loss of all logits."""

import json

import pytest


@pytest.fixture
def bench(load_tool):
    return load_tool("bench_loss")


def test_a_quick_run_stores_both_precisions_and_holds_its_goals(bench, tmp_path):
    bench.main(["--quick", "--out", str(tmp_path / "loss.json")])
    stored = json.loads((tmp_path / "loss.json").read_text())
    assert [(row["dtype"], row["variant"]) for row in stored["rows"]] == [
        ("float32", "chunks"),
        ("float32", "all at once"),
        ("bfloat16", "chunks"),
        ("bfloat16", "all at once"),
    ]
    assert [name for name, figure in stored["figures"].items() if not figure["holds"]] == []
    # All logits of float32, and what is made of them.
    assert stored["rows"][1]["bytes"] > 3 * 512 * 10_000 * 4


def test_quick_figures_do_not_replace_stored_ones(bench):
    with pytest.raises(SystemExit):
        bench.main(["--quick"])


def row(dtype, variant, **values):
    zeros = dict.fromkeys(
        ("logprobs_off", "entropy_off", "hidden_gradient_off", "weight_gradient_off"), 0.0
    )
    return {
        "dtype": dtype, "variant": variant, "bytes": 100.0, "of_chunk": 1.0, "seconds": 1.0,
        **zeros, **values,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        ("float32_peak", {"of_chunk": 1.31}),
        ("float32_values_off", {"entropy_off": 2e-4}),
        ("float32_gradients_off", {"weight_gradient_off": 2e-4}),
    ],
)
def test_each_goal_can_be_missed(bench, figure, values):
    figures = bench.figures_of([
        row("float32", "chunks", **values),
        row("float32", "all at once", bytes=2000.0, seconds=0.5),
    ])
    missed = [name for name, each in figures.items() if not each.to_dict()["holds"]]
    assert missed == [figure]
    assert figures["float32_memory_of_all_at_once"].value == 0.05
    assert figures["float32_time_of_all_at_once"].value == 2.0
