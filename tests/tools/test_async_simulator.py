"""AReaL's figures beside those of the simulated pipeline."""

from math import inf
from types import MappingProxyType

import pytest
from earl_trainer.planning.figures import PipelineFigures
from earl_trainer.planning.replays import Replay, Speedup


@pytest.fixture
def tool(load_tool):
    return load_tool("async_simulator")


def replay(eta, *, error, fitted):
    figures = PipelineFigures(
        trained_tokens_per_s=1000.0 * (1 + error),
        generated_tokens_per_s=1.0,
        staleness=MappingProxyType({0: 1, 3: 1}),
        rollout_idle_share=0.25,
        training_idle_share=0.5,
        sequences_per_device=7.25,
    )
    return Replay(eta=eta, figures=figures, published_tokens_per_s=1000.0, fitted=fitted)


def speedup(published):
    return Speedup(
        name="small", num_devices=8, over_same_split=3.0, over_all_devices=2.0, published=published
    )


def test_only_predictions_of_table_2_have_a_goal_and_their_error_has_no_sign(tool):
    table = (
        replay(0, error=0.3, fitted=True),
        replay(2, error=-0.12, fitted=False),
        replay(inf, error=0.09, fitted=False),
    )
    figures = tool.make_figures(table, table, (speedup(2.5),))
    stored = {name: figure.to_dict() for name, figure in figures.items()}
    assert stored["table_2_error_at_eta_0"]["goal"] == ""
    assert stored["table_2_error_at_eta_2"]["value"] == pytest.approx(12)
    assert not stored["table_2_error_at_eta_2"]["holds"]
    assert stored["table_2_error_at_eta_inf"]["goal"] == "<= 10"
    assert stored["table_2_error_at_eta_inf"]["holds"]
    assert stored["table_7_worst_error"]["value"] == pytest.approx(12)
    assert stored["table_1_speedup_small"]["value"] == 3
    assert "2.50" in stored["table_1_speedup_small"]["unit"]


def test_rows_show_published_and_simulated(tool):
    (row,) = tool.throughput_rows("7", (replay(2, error=-0.12, fitted=False),))
    assert (row["table"], row["eta"], row["fitted"]) == ("7", "2", False)
    assert (row["simulated_tokens_per_s"], row["error_percent"]) == (880, -12.0)
    assert (row["mean_staleness"], row["max_staleness"]) == (1.5, 3)
    rows = tool.speedup_rows("scaling", (speedup(2.5), speedup(None)))
    assert [row["published"] for row in rows] == [2.5, None]


@pytest.mark.slow
def test_the_predictions_hold_also_when_quick(tool):
    section = tool.measure(quick=True)
    assert all(figure.to_dict()["holds"] for figure in section.figures.values())
    assert len([row for row in section.rows if row["table"] == "2"]) == 7
