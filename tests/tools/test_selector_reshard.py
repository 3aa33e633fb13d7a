"""Plans of re-sharding a model of 72 billion parameters."""

from dataclasses import replace

import pytest
from earl_selector import MODEL_SHAPES


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_reshard")


def test_parameters_are_all_of_the_models(tool):
    shape = replace(MODEL_SHAPES["qwen2.5-72b"], num_layers=2)
    parameters = tool.list_parameters(shape)
    assert sum(each.num_bytes for each in parameters) == 2 * shape.num_parameters
    whole = {each.name for each in parameters if each.sharded_dim is None}
    assert whole == {"norm", "0.norm1", "0.norm2", "1.norm1", "1.norm2"}


def test_bounds_are_met_and_every_pair_of_degrees_is_there(tool):
    section = tool.measure(quick=True)
    for name, figure in section.figures.items():
        if name != "plan_of_100k_moves":
            assert figure.to_dict()["holds"], name
    pairs = {(row["from_tp"], row["to_tp"]) for row in section.rows}
    assert len(pairs) == len(section.rows) == 4 * 3 + 2
    # Four layers and two vocabularies make 12.0 GB of sharded parameters; from eighths to quarters.
    (row,) = [row for row in section.rows if (row["from_tp"], row["to_tp"]) == (8, 4)]
    assert row["most_received_bytes"] == pytest.approx(12.0e9 / 8, rel=0.01)


def test_what_misses_a_bound_shows(tool):
    row = {
        "from_tp": 1,
        "to_tp": 2,
        "num_moves": 10,
        "bytes_moved": 4,
        "bytes_lower_bound": 0,
        "least_received_bytes": 0,
        "most_received_bytes": 4,
        "most_sent_bytes": 4,
        "plan_s": 1e-3,
    }
    down = {**row, "from_tp": 2, "to_tp": 1, "bytes_lower_bound": 4, "num_moves": 5}
    figures = tool.make_figures([row, down], [], sharded_bytes=8)
    assert figures["moved_upward"].value == 4
    assert figures["moved_over_lower_bound"].value == 2
    assert figures["rank_off_bound_downward"].value == 4  # One rank received nothing of its 4.
    assert figures["plan_of_100k_moves"].value == pytest.approx(10.0)
