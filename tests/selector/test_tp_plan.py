from dataclasses import replace

import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, MemoryModel
from earl_selector.roofline import RooflineThroughput
from earl_selector.tp_plan import TpPlan, double_from
from hypothesis import given
from hypothesis import strategies as st

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)
PLAN = TpPlan(
    memory=MEMORY,
    throughput=RooflineThroughput(memory=MEMORY),
    degrees=(1, 4, 8),
    num_responses=32,
    contexts=double_from(1024, 65_536),
)


def test_responses_run_up_to_the_capacity_and_take_their_memory():
    fits, queues = PLAN.forecast(4, 8192), PLAN.forecast(4, 32_768)
    assert (fits.num_running, queues.num_running) == (32, 13)
    assert fits.used_bytes == MEMORY.used_bytes(4, 32 * 8192)
    assert queues.used_bytes == MEMORY.used_bytes(4, 13 * 32_768) <= 0.9 * 84_943_044_608
    assert fits.fits
    assert queues.fits


def test_a_degree_that_cannot_hold_the_weights_never_fits():
    forecast = PLAN.forecast(1, 1024)
    assert (forecast.fits, forecast.tokens_per_s_per_device) == (False, 0.0)


def test_queueing_and_out_of_memory_are_two_bounds():
    assert PLAN.queueing_tokens(4) == 452_803 // 32
    assert PLAN.wall_tokens(4) == 452_803
    at_bound, beyond = (PLAN.forecast(4, PLAN.queueing_tokens(4) + more) for more in (0, 1))
    assert (at_bound.num_running, beyond.num_running) == (32, 31)
    assert PLAN.forecast(4, 452_803).num_running == 1
    assert not PLAN.forecast(4, 452_804).fits


def test_the_larger_degree_takes_over_at_the_token_at_which_the_smaller_begins_to_queue():
    (crossover,) = PLAN.crossovers()
    assert (crossover.from_tp, crossover.to_tp) == (4, 8)
    assert crossover.context_tokens == PLAN.queueing_tokens(4) + 1
    assert PLAN.best_tp(crossover.context_tokens - 1) == 4
    assert PLAN.best_tp(crossover.context_tokens) == 8


def test_no_degree_is_best_beyond_all_walls():
    assert PLAN.best_tp(10**7) is None
    beyond = replace(PLAN, contexts=(10**7, 10**8))
    assert beyond.crossovers() == ()
    at_once = replace(PLAN, contexts=(PLAN.wall_tokens(8), 10**7))
    assert at_once.crossovers() == ()


def test_a_crossover_before_the_wall_is_found_also_where_the_next_context_lies_beyond_it():
    assert replace(PLAN, contexts=(1024, 2 * 10**6)).crossovers() == PLAN.crossovers()


class Switching:
    """Degree 8 is faster from a context on."""

    def __init__(self, context_tokens):
        self.context_tokens = context_tokens

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        return float((tp == 8) == (context_tokens >= self.context_tokens))


@given(st.integers(1025, 65_536))
def test_a_crossover_is_found_to_the_token(context_tokens):
    plan = replace(PLAN, throughput=Switching(context_tokens), degrees=(4, 8))
    (crossover,) = plan.crossovers()
    assert crossover.context_tokens == context_tokens


@pytest.mark.parametrize(
    ("low", "high", "contexts"),
    [(1024, 4096, (1024, 2048, 4096)), (3, 20, (3, 6, 12, 20)), (7, 7, (7,))],
)
def test_contexts_double_and_end_at_the_last(low, high, contexts):
    assert double_from(low, high) == contexts


@pytest.mark.parametrize(("low", "high"), [(0, 4), (5, 4)])
def test_a_range_that_does_not_rise_is_refused(low, high):
    with pytest.raises(ValueError, match=f"must rise from at least 1, got {low} to {high}"):
        double_from(low, high)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"degrees": ()}, "at least one degree and one context"),
        ({"contexts": ()}, "at least one degree and one context"),
        ({"num_responses": 0}, "responses and contexts must be >= 1, got 0 and 1024"),
        ({"contexts": (0, 8)}, "responses and contexts must be >= 1, got 32 and 0"),
        ({"degrees": (3,)}, "tp 3 does not divide the model's 64 attention heads"),
    ],
)
def test_a_plan_of_nothing_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAN, **change)
