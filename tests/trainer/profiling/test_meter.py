"""Rates against an engine whose every second is known."""

from itertools import pairwise

import pytest
import torch


def test_only_steady_decoding_is_timed(timed_engine, make_meter):
    engine = timed_engine(lambda tp, responses: 100.0 * tp * responses)
    meter = make_meter(engine)
    assert meter.tokens_per_s(num_responses=5, context_tokens=40) == pytest.approx(500.0)
    engine.resize(2)
    assert meter.tokens_per_s(num_responses=5, context_tokens=40) == pytest.approx(1000.0)


@pytest.mark.parametrize("context_tokens", [8, 9, 14, 15, 40])
def test_the_last_reply_ends_at_the_context_asked_for(timed_engine, make_meter, context_tokens):
    engine = timed_engine(lambda tp, responses: 100.0)
    assert make_meter(engine).tokens_per_s(num_responses=2, context_tokens=context_tokens) > 0.0
    last = engine.batches[-1][0]
    assert len(last.prompt_ids) + last.max_new_tokens == context_tokens
    assert last.max_new_tokens == min(4, (context_tokens - 3) // 3)


def test_the_median_of_several_replies_counts(timed_engine, make_meter):
    speeds = iter([1.0, 100.0, 1.0, 90.0])  # of the untimed reply, and of three others
    engine = timed_engine(lambda tp, responses: next(speeds))
    rate = make_meter(engine).tokens_per_s(num_responses=3, context_tokens=40)
    assert rate == pytest.approx(90.0)


def test_an_end_of_turn_shortens_what_is_counted_and_is_not_read_again(timed_engine, make_meter):
    def reply(row, most):
        return [1, 7] if row == 0 and most > 2 else [1] * most

    engine = timed_engine(lambda tp, responses: 80.0, reply=reply)
    rate = make_meter(engine).tokens_per_s(num_responses=2, context_tokens=40)
    # 2 + 4 of 8 tokens were emitted in the 8 / 80 seconds that decoding took.
    assert rate == pytest.approx(60.0)
    for batch in engine.batches:
        assert not any({0, 7} & set(request.prompt_ids) for request in batch)


def test_prompts_are_random_ordinary_tokens_alike_for_equal_seeds(timed_engine, make_meter):
    def prompts(**fields):
        engine = timed_engine(lambda tp, responses: 1.0)
        make_meter(engine, **fields).tokens_per_s(num_responses=3, context_tokens=500)
        return [tuple(request.prompt_ids) for request in engine.batches[0]]

    first = prompts()
    assert len(set(first)) == 1
    assert set(first[0]) == set(range(30)) - {0, 7}
    assert prompts() == first != prompts(seed=1)
    assert len(set(prompts(shared_prompt=False))) == 3


def test_conversations_differ_from_their_first_reply_on(timed_engine, make_meter):
    engine = timed_engine(lambda tp, responses: 1.0)
    make_meter(engine).tokens_per_s(num_responses=6, context_tokens=40)
    for earlier, later in pairwise(engine.batches):
        assert [r.sequence_id for r in earlier] == [r.sequence_id for r in later] == [*range(6)]
        assert len({request.seed for request in (*earlier, *later)}) == 12


def test_past_the_deadline_one_reply_has_to_do(timed_engine, make_meter):
    engine = timed_engine(lambda tp, responses: 10.0)
    rate = make_meter(engine).tokens_per_s(
        num_responses=1, context_tokens=40, deadline_s=engine.clock()
    )
    assert rate == pytest.approx(10.0)
    assert len(engine.batches) == 2


def test_a_load_that_the_engine_refuses_has_no_rate(timed_engine, make_meter):
    engine = timed_engine(lambda tp, responses: 10.0, capacity_tokens=60)
    meter = make_meter(engine)
    assert meter.tokens_per_s(num_responses=1, context_tokens=60) == pytest.approx(10.0)
    # At first two prompts fit; it is only the last reply that does not.
    assert meter.tokens_per_s(num_responses=2, context_tokens=31) == 0.0


def test_neither_has_one_that_memory_does_not_hold_but_other_errors_are_errors(
    timed_engine, make_meter
):
    def out_of_memory(tp, responses):
        raise torch.OutOfMemoryError

    def broken(tp, responses):
        raise RuntimeError("a fault")

    meter = make_meter(timed_engine(out_of_memory))
    assert meter.tokens_per_s(num_responses=1, context_tokens=40) == 0.0
    meter = make_meter(timed_engine(broken))
    with pytest.raises(RuntimeError, match="a fault"):
        meter.tokens_per_s(num_responses=1, context_tokens=40)


@pytest.mark.parametrize("lazy", [False, True])
def test_a_switch_costs_what_it_adds_to_the_next_reply(timed_engine, make_meter, lazy):
    engine = timed_engine(lambda tp, responses: 0.25, lazy=lazy)
    assert make_meter(engine).switch_s((1, 2, 4)) == pytest.approx(2.0)
    assert engine.degrees == [1, 2, 4, 2, 1]


def test_a_change_that_the_engine_refuses_is_not_timed(timed_engine, make_meter):
    engine = timed_engine(lambda tp, responses: 0.25, never_down=True)
    assert make_meter(engine).switch_s((1, 2)) is None
    engine = timed_engine(lambda tp, responses: 0.25, never_down=True)
    engine.resize(2)
    assert make_meter(engine).switch_s((1, 2)) is None, "at degree 2 it was already"
