"""Measurements that need no network."""

import pytest


@pytest.fixture
def tool(load_tool):
    return load_tool("dispatch_one_host")


def test_small_plans_are_fast_and_place_rows_at_the_minimum(tool):
    figures = tool.plan_figures(num_rows=300, num_ranks=8, ranks_per_host=2)
    assert 0 < figures["plan"].value < 1
    assert 0 <= figures["placement_over_minimum"].value <= 1


@pytest.mark.slow
def test_memory_holds_at_least_what_is_received(tool):
    figures = tool.memory_figures(tokens_per_row=1 << 13, num_repeats=2)
    times = [figures[f"one_host_{name}"].value for name in ("shared_memory", "all_to_all")]
    assert min(times) > 0
    assert figures["one_host_ratio"].value == pytest.approx(times[1] / times[0])
    assert 0.5 < figures["one_host_peak_memory"].value < 3


def test_the_peak_is_that_since_it_was_reset(tool):
    before = tool._reset_peak()
    block = bytearray(64 << 20)
    block[:: 1 << 12] = b"x" * len(block[:: 1 << 12])
    del block
    assert tool._status_bytes("VmHWM") - before > 60 << 20
    now = tool._reset_peak()
    assert tool._status_bytes("VmHWM") - now < 16 << 20


def test_what_the_kernel_does_not_tell_is_refused(tool):
    with pytest.raises(ValueError, match="has no VmNothing"):
        tool._status_bytes("VmNothing")
