"""EARL's figures beside those of the memory model."""

import pytest
from earl_selector.fig3 import read_cells


@pytest.fixture
def tool(load_tool):
    return load_tool("selector_fig3")


def test_the_memory_rule_is_right_everywhere_at_all_plausible_constants(tool):
    figures = tool.make_figures(read_cells())
    assert figures["signs_right_by_memory_rule"].value == 29
    assert figures["signs_right_at_worst_constants"].value == 29
    assert figures["signs_right_by_context_rule"].value == 23
    assert figures["cells_beyond_capacity_tp4"].value == 10


def test_each_cell_shows_both_rules_and_how_full_it_is(tool):
    rows = {(row["responses"], row["context_tokens"]): row
            for row in tool.cell_rows(read_cells(), tool.make_memory())}  # fmt: skip
    assert len(rows) == 30
    row = rows[64, 8192]
    assert (row["measured_percent"], row["memory_rule_tp"], row["context_rule_tp"]) == (6.4, 8, 4)
    assert row["share_of_tp4_capacity"] == 1.16
    assert rows[128, 32_768]["measured_percent"] is None
    for row in rows.values():
        if row["measured_percent"] is not None:
            assert (row["measured_percent"] > 0) == (row["roofline_percent"] > 0)


def test_errors_of_the_roofline_are_reported_on_both_sides_of_the_capacity(tool):
    figures = tool.make_figures(read_cells())
    rows = tool.cell_rows(read_cells(), tool.make_memory())
    for name, wanted in (("within", range(2**19)), ("beyond", range(2**19, 2**23))):
        errors = [
            abs(row["roofline_percent"] - row["measured_percent"])
            for row in rows
            if row["measured_percent"] is not None and row["resident_tokens"] in wanted
        ]
        value = figures[f"roofline_error_{name}_capacity"].value
        assert value == pytest.approx(sum(errors) / len(errors), abs=0.05)


def test_the_failed_cell_is_explained_by_numbers_and_not_by_the_cache(tool):
    cache, engine, waiting = tool.explain_failure(read_cells(), tool.make_memory())
    assert cache.startswith("Cannot: the KV cache alone. 9 other cells exceed what TP 4 holds, by")
    assert "up to 4.6 times" in cache
    assert engine.startswith("Cannot: weights")
    # (2^21 and 2^22 tokens less 452,803) x 327,680 bytes.
    assert "0.54 TB in the fullest cells that ran, 1.23 TB in this one" in waiting


def test_a_fifth_of_the_gpt_formula_is_the_papers_training_batch(tool):
    first, *others = tool.training_rows()
    assert (first["gib_at_4096"], first["gib_at_8192"]) == tool.REPORTED_GB == (97, 354)
    assert all(row["gib_at_4096"] != 97 for row in others)


def test_cells_that_queue_are_named(tool):
    small, large = tool.describe_beyond(read_cells(), tool.make_memory())
    assert small.startswith("Beyond the capacity of TP 4: 16 x 32k, 32 x 32k, 64 x 32k, 128 x 32k")
    assert large == "Beyond the capacity of TP 8: 64 x 32k, 128 x 32k, 128 x 16k"


def test_section_holds_every_cell_and_every_sentence(tool):
    section = tool.measure(quick=False)
    assert all(figure.to_dict()["holds"] for figure in section.figures.values())
    assert len([row for row in section.rows if "resident_tokens" in row]) == 30
    assert len([row for row in section.rows if "note" in row]) == 5
