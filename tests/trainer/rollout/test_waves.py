"""Waves fit, are as full as fits, and lose no request."""

import pytest
from earl_trainer.rollout.engine import Request
from earl_trainer.rollout.waves import final_tokens, plan_waves
from hypothesis import given, settings
from hypothesis import strategies as st


def test_a_context_may_grow_to_its_prompt_and_a_whole_reply():
    request = Request(
        sequence_id=0, prompt_ids=[1, 2, 3], max_new_tokens=4, temperature=1.0, seed=0
    )
    assert final_tokens(request) == 7


def test_what_fits_at_once_runs_at_once_in_order():
    assert plan_waves([2, 5, 3], 15, first=[2]) == [[0, 1, 2]]


def test_waves_go_from_long_to_short_so_that_little_is_padded():
    # Two of 10 fill 20 slots, the four of 5 fill as many.
    assert plan_waves([5, 10, 5, 10, 5, 5], 20) == [[1, 3], [0, 2, 4, 5]]


def test_what_is_to_come_first_does():
    assert plan_waves([5, 10, 5, 10, 5, 5], 20, first=[4, 1]) == [[1, 4], [3, 0], [2, 5]]


@settings(derandomize=True, max_examples=200)
@given(
    num_slots=st.lists(st.integers(2, 16), min_size=1, max_size=10),
    capacity_tokens=st.integers(16, 60),
    first=st.sets(st.integers(0, 9)),
)
def test_waves_cover_all_requests_and_are_as_full_as_fits(num_slots, capacity_tokens, first):
    waves = plan_waves(num_slots, capacity_tokens, first=first)

    assert sorted(place for wave in waves for place in wave) == list(range(len(num_slots)))
    for number, wave in enumerate(waves):
        assert len(wave) * max(num_slots[place] for place in wave) <= capacity_tokens
        if number + 1 < len(waves):
            longer = [*wave, waves[number + 1][0]]
            assert len(longer) * max(num_slots[place] for place in longer) > capacity_tokens
    if len(waves) > 1:
        preferred = [place in first for wave in waves for place in wave]
        assert preferred == sorted(preferred, reverse=True)


def test_a_context_larger_than_the_capacity_is_refused():
    assert plan_waves([8, 8], 8) == [[0], [1]]
    with pytest.raises(ValueError, match="a context of 9 tokens does not fit the capacity of 8"):
        plan_waves([8, 9], 8)
