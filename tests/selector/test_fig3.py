import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, MemoryModel
from earl_selector.fig3 import (
    Fig3Cell,
    best_context_rule,
    capacity_rule,
    context_rule,
    count_right,
    list_beyond,
    read_cells,
    separating_capacities,
)
from earl_selector.roofline import RooflineThroughput
from hypothesis import given
from hypothesis import strategies as st

CELLS = read_cells()


def memory_of_the_testbed(utilisation, reserve_bytes):
    return MemoryModel(
        shape=MODEL_SHAPES["qwen2.5-72b"],
        device=DEVICE_SPECS["h100-80gb"],
        bytes_per_parameter=2,
        bytes_per_kv_value=2,
        utilisation=utilisation,
        reserve_bytes=reserve_bytes,
    )


def cell(num_responses, context_tokens, speedup_percent):
    return Fig3Cell(
        num_responses=num_responses,
        context_tokens=context_tokens,
        speedup_percent=speedup_percent,
    )


def test_the_grid_is_five_loads_by_six_contexts_and_one_cell_failed():
    assert {(each.num_responses, each.context_tokens) for each in CELLS} == {
        (responses, thousands * 1024)
        for responses in (8, 16, 32, 64, 128)
        for thousands in (1, 2, 4, 8, 16, 32)
    }
    (failed,) = [each for each in CELLS if each.speedup_percent is None]
    assert (failed.num_responses, failed.context_tokens) == (128, 32 * 1024)
    by_load = {(each.num_responses, each.context_tokens): each.speedup_percent for each in CELLS}
    assert by_load[16, 1024] == min(percent for percent in by_load.values() if percent is not None)
    assert (by_load[16, 1024], by_load[32, 8192], by_load[64, 32_768]) == (-32.2, -4.4, 6.5)


@given(utilisation=st.floats(0.8, 0.95), reserve_bytes=st.integers(2 * 10**9, 4 * 10**9))
def test_tp_8_was_faster_exactly_where_tp_4_overflows(utilisation, reserve_bytes):
    memory = memory_of_the_testbed(utilisation, reserve_bytes)
    assert count_right(CELLS, capacity_rule(memory.capacity_tokens(4))) == 29


@given(utilisation=st.floats(0.8, 0.9), reserve_bytes=st.integers(2 * 10**9, 4 * 10**9))
def test_the_roofline_has_the_right_sign_in_every_measured_cell(utilisation, reserve_bytes):
    throughput = RooflineThroughput(memory=memory_of_the_testbed(utilisation, reserve_bytes))

    def predicts_large(each):
        load = (each.num_responses, each.context_tokens)
        return throughput.tokens_per_s_per_device(8, *load) > throughput.tokens_per_s_per_device(
            4, *load
        )

    assert count_right(CELLS, predicts_large) == 29


def test_every_capacity_between_two_grid_lines_separates_and_no_other_does():
    capacities = separating_capacities(CELLS)
    assert (capacities.start, capacities.stop) == (2**18, 2**19)
    for capacity, num_right in ((2**18 - 1, 24), (2**18, 29), (2**19 - 1, 29), (2**19, 25)):
        assert count_right(CELLS, capacity_rule(capacity)) == num_right


def test_no_threshold_of_the_context_alone_is_right_everywhere():
    assert best_context_rule(CELLS) == (16 * 1024, 23)
    assert count_right(CELLS, context_rule(8 * 1024)) < 23


def test_nine_cells_beside_the_failed_one_exceed_what_tp_4_holds():
    beyond_4, beyond_8 = (
        {(each.num_responses, each.context_tokens // 1024) for each in list_beyond(CELLS, tokens)}
        for tokens in (memory_of_the_testbed(0.9, 3 * 10**9).capacity_tokens(tp) for tp in (4, 8))
    )
    assert beyond_4 == {
        *((16, 32), (32, 32), (64, 32), (128, 32), (32, 16), (64, 16), (128, 16)),
        *((64, 8), (128, 8), (128, 4)),
    }
    assert beyond_8 == {(64, 32), (128, 32), (128, 16)}


def test_a_cell_that_just_fits_is_not_beyond_capacity():
    just = cell(2, 4, 1.0)
    assert list_beyond([just], 8) == ()
    assert list_beyond([just], 7) == (just,)


def test_cells_without_a_figure_count_for_no_rule():
    cells = [cell(1, 8, None), cell(1, 8, 2.0), cell(1, 4, -2.0)]
    assert count_right(cells, lambda _: True) == 1
    assert count_right(cells, lambda _: False) == 1
    assert count_right(cells, capacity_rule(4)) == 2


@pytest.mark.parametrize("large_first", [False, True])
def test_no_capacity_separates_where_the_faster_degree_does_not_follow_residents(large_first):
    small, large = cell(1, 8, -1.0), cell(1, 16, 1.0)
    if large_first:
        small, large = cell(1, 16, -1.0), cell(1, 8, 1.0)
    assert bool(separating_capacities([small, large])) is not large_first
