from itertools import pairwise
from statistics import fmean

import pytest
from earl_selector import TraceKind, make_trace
from earl_selector.traces import TRACE_SEEDS, Load

CROSSOVER_TOKENS = 452_803
MAX_CONTEXT_TOKENS = 32_768
TRACES = [
    make_trace(seed, crossover_tokens=CROSSOVER_TOKENS, max_context_tokens=MAX_CONTEXT_TOKENS)
    for seed in TRACE_SEEDS
]


def test_there_are_200_traces_of_three_kinds_that_all_cross():
    assert len(TRACES) == 200
    for trace in TRACES:
        residents = [load.resident_tokens for load in trace.loads]
        assert min(residents) < 0.8 * CROSSOVER_TOKENS
        assert max(residents) > 1.25 * CROSSOVER_TOKENS
        assert max(load.context_tokens for load in trace.loads) <= MAX_CONTEXT_TOKENS
        assert [load.step for load in trace.loads] == list(range(len(trace.loads)))
        assert 60 <= len(trace.loads) <= 200
    counts = [sum(trace.kind is kind for trace in TRACES) for kind in TraceKind]
    assert counts == [67, 67, 66]


def test_kinds_move_as_they_are_called():
    for trace in TRACES:
        contexts = [load.context_tokens for load in trace.loads]
        first, last = fmean(contexts[:8]), fmean(contexts[-8:])
        if trace.kind is TraceKind.GROWING:
            assert first < last
        if trace.kind is TraceKind.SHRINKING:
            assert first > last
        if trace.kind is TraceKind.SPIKY:
            jumps = [b / a for a, b in pairwise(contexts)]
            assert max(*jumps, *(1 / jump for jump in jumps)) > 2.0


def test_a_seed_fixes_a_trace():
    again = make_trace(7, crossover_tokens=CROSSOVER_TOKENS, max_context_tokens=MAX_CONTEXT_TOKENS)
    assert again == TRACES[7]
    assert again.loads != TRACES[10].loads


def test_half_of_the_traces_change_the_number_of_responses():
    changing = [len({load.num_responses for load in trace.loads}) > 1 for trace in TRACES]
    assert fmean(changing) == pytest.approx(0.5, abs=0.1)


def test_a_load_reports_itself():
    report = Load(step=3, num_responses=4, context_tokens=50).to_report()
    assert (report.step, report.num_responses, report.resident_tokens) == (3, 4, 200)
    assert report.mean_context_tokens == report.max_context_tokens == 50
