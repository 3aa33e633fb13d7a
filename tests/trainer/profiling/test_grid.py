"""Which loads are planned, around the places where responses begin to queue."""

import pytest
from earl_selector import ProfileGrid
from earl_trainer.profiling.grid import DegreeLoad, RunLoad, plan_grid
from hypothesis import given
from hypothesis import strategies as st


def run_load(*degrees, max_context_tokens=256):
    return RunLoad(
        degrees=tuple(
            DegreeLoad(tp=tp, num_responses=responses, capacity_tokens=capacity)
            for tp, responses, capacity in degrees
        ),
        max_context_tokens=max_context_tokens,
        max_reply_tokens=4,
    )


def test_loads_go_by_halves_down_from_what_the_run_needs():
    assert plan_grid(run_load((1, 96, 10**6), (2, 96, 10**6))) == ProfileGrid(
        degrees=(1, 2), num_responses=(24, 48, 96), context_tokens=(64, 128, 256)
    )


def test_engines_that_divide_the_responses_are_measured_with_their_part():
    grid = plan_grid(run_load((1, 12, 10**6), (2, 24, 10**6), (4, 48, 10**6)))
    assert grid.num_responses == (12, 24, 48)
    assert 7 in plan_grid(run_load((1, 7, 10**6), (2, 48, 10**6))).num_responses


def test_the_context_that_fills_an_engine_is_measured_and_one_that_no_longer_fits():
    # 16 x 150 = 2,400 is the last that fits; an eighth more is 150 + 19.
    grid = plan_grid(run_load((1, 16, 2410), (2, 16, 10**6)))
    assert grid.context_tokens == (64, 128, 150, 169, 256)
    # An eighth more than 240 would be more than a context may have.
    assert plan_grid(run_load((1, 16, 3840))).context_tokens == (64, 128, 240, 256)
    # The edges of two degrees that lie close together are one, those further apart are two.
    assert plan_grid(run_load((1, 8, 1200), (2, 16, 2640))).context_tokens == (
        64,
        128,
        150,
        169,
        256,
    )
    assert plan_grid(run_load((1, 8, 640), (2, 16, 2400))).context_tokens == (
        *(64, 80, 90, 128, 150, 169, 256),
    )
    # Whatever is asked for queues at the first, nothing at the second.
    assert plan_grid(run_load((1, 16, 300), (2, 16, 4096))).context_tokens == (64, 128, 256)


def test_contexts_too_short_to_be_timed_are_left_out_or_refused():
    assert plan_grid(run_load((1, 1, 10**6), max_context_tokens=12)).context_tokens == (8, 12)
    with pytest.raises(ValueError, match=r"^a context must have at least 8 tokens .* got 7$"):
        plan_grid(run_load((1, 1, 10**6), max_context_tokens=7))


@given(
    st.lists(st.tuples(st.integers(1, 999), st.integers(1, 10**6)), min_size=1, max_size=4),
    st.integers(8, 10**5),
)
def test_every_plan_holds_the_largest_load_and_is_small(loads, max_context_tokens):
    degrees = [(2**index, *load) for index, load in enumerate(loads)]
    grid = plan_grid(run_load(*degrees, max_context_tokens=max_context_tokens))
    assert grid.num_responses[-1] == max(responses for responses, _ in loads)
    assert grid.context_tokens[-1] == max_context_tokens
    assert len(grid.context_tokens) <= 3 + 2 * len(loads)
    assert len(grid.num_responses) <= 3 + len(loads)
