from typing import get_args, get_type_hints

import pytest
from earl_trainer.experience.packing import (
    PACKINGS,
    pack_fewest_first,
    pack_first_fit,
    pack_karmarkar_karp,
)
from earl_trainer.learner.config import LearnerConfig
from hypothesis import given, settings
from hypothesis import strategies as st

CAPACITY_TOKENS = 30
lengths_of_rows = st.lists(st.integers(0, CAPACITY_TOKENS), max_size=25)


def loads_of(bins, lengths):
    return [sum(lengths[row] for row in rows) for rows in bins]


def test_every_name_of_the_config_is_a_planner():
    assert set(get_args(get_type_hints(LearnerConfig)["packing"])) == set(PACKINGS)


@settings(derandomize=True, max_examples=80, deadline=None)
@given(lengths=lengths_of_rows, min_bins=st.integers(0, 9), bins_divisor=st.integers(1, 4))
@pytest.mark.parametrize("packing", PACKINGS)
def test_every_row_is_in_one_bin_and_bins_keep_capacity_and_count(
    packing, lengths, min_bins, bins_divisor
):
    bins = PACKINGS[packing](
        lengths, capacity_tokens=CAPACITY_TOKENS, min_bins=min_bins, bins_divisor=bins_divisor
    )
    assert sorted(row for rows in bins for row in rows) == list(range(len(lengths)))
    assert all(load <= CAPACITY_TOKENS for load in loads_of(bins, lengths))
    assert len(bins) >= min_bins
    assert len(bins) % bins_divisor == 0
    assert len(bins) < max(min_bins, len(lengths)) + bins_divisor
    for rows in bins:
        assert rows == sorted(rows, key=lambda row: (-lengths[row], row))


@settings(derandomize=True, max_examples=80, deadline=None)
@given(lengths=lengths_of_rows)
@pytest.mark.parametrize("packing", PACKINGS)
def test_with_as_many_bins_as_rows_and_more_every_plan_has_exactly_these(packing, lengths):
    for num_bins in (len(lengths), len(lengths) + 3):
        bins = PACKINGS[packing](lengths, capacity_tokens=CAPACITY_TOKENS, min_bins=num_bins)
        assert len(bins) == num_bins


@settings(derandomize=True, max_examples=80, deadline=None)
@given(lengths=st.lists(st.integers(1, CAPACITY_TOKENS), max_size=25))
@pytest.mark.parametrize("packing", ["fewest-first", "first-fit"])
def test_a_bin_is_opened_only_for_a_row_that_fits_none(packing, lengths):
    bins = PACKINGS[packing](lengths, capacity_tokens=CAPACITY_TOKENS)
    for number, rows in enumerate(bins):
        opener = rows[0]
        for earlier in bins[:number]:
            # Rows are dealt longest first: these lay there already.
            load = sum(
                lengths[row] for row in earlier if (-lengths[row], row) < (-lengths[opener], opener)
            )
            assert load + lengths[opener] > CAPACITY_TOKENS


@settings(derandomize=True, max_examples=80, deadline=None)
@given(lengths=st.lists(st.integers(1, CAPACITY_TOKENS), min_size=1, max_size=25))
def test_differencing_leaves_bins_no_further_apart_than_the_longest_row(lengths):
    for min_bins in (1, 2, 5):
        bins = pack_karmarkar_karp(lengths, capacity_tokens=CAPACITY_TOKENS, min_bins=min_bins)
        loads = loads_of(bins, lengths)
        assert max(loads) - min(loads) <= max(lengths)


@pytest.mark.parametrize("packing", PACKINGS)
def test_a_row_beyond_the_capacity_is_refused_with_both_lengths(packing):
    with pytest.raises(ValueError, match=r"sequence of 12 tokens .* micro-batch of 10 tokens"):
        PACKINGS[packing]([4, 12, 3], capacity_tokens=10)
    assert sorted(PACKINGS[packing]([4, 10], capacity_tokens=10)) == [[0], [1]]


def test_fewest_first_evens_rows_out_where_first_fit_fills_up():
    lengths = [5, 4, 1, 1, 1]
    assert pack_fewest_first(lengths, capacity_tokens=7) == [[0, 2, 4], [1, 3]]
    assert pack_first_fit(lengths, capacity_tokens=7) == [[0, 2, 3], [1, 4]]


def test_bins_that_were_asked_for_are_opened_by_the_longest_rows():
    lengths = [1, 2, 3, 4]
    assert pack_fewest_first(lengths, capacity_tokens=10) == [[3, 2, 1, 0]]
    assert pack_fewest_first(lengths, capacity_tokens=10, min_bins=3) == [[3, 0], [2], [1]]
    assert pack_first_fit(lengths, capacity_tokens=10, min_bins=2) == [[3, 1, 0], [2]]


def test_differencing_balances_as_its_authors_have_it():
    # 8-7 = 1, 6-5 = 1, 4-1 = 3, 3-1 = 2: the classical run ends two apart.
    bins = pack_karmarkar_karp([8, 7, 6, 5, 4], capacity_tokens=16)
    assert sorted(loads_of(bins, [8, 7, 6, 5, 4])) == [14, 16]


def test_differencing_takes_more_bins_where_the_fewest_are_over_the_capacity():
    # Twelve tokens would fill two bins of six, but rows are not cut.
    assert sorted(pack_karmarkar_karp([4, 4, 4], capacity_tokens=6)) == [[0], [1], [2]]


@pytest.mark.parametrize("packing", PACKINGS)
def test_no_rows_make_no_bins_but_those_asked_for(packing):
    pack = PACKINGS[packing]
    assert pack([], capacity_tokens=5) == []
    assert pack([], capacity_tokens=5, min_bins=2, bins_divisor=3) == [[], [], []]
