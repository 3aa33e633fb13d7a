from itertools import product

import pytest
from earl_dispatch import Layout
from earl_dispatch.layout import chunk_bounds, overlap
from hypothesis import given, settings
from hypothesis import strategies as st

lengths_lists = st.lists(st.integers(0, 1000), max_size=30)


def tokens_per_group(layout: Layout, lengths: list[int]) -> list[int]:
    return [
        sum(length for length, owner in zip(lengths, layout.owners, strict=True) if owner == group)
        for group in range(len(layout.groups))
    ]


def test_contiguous_rows_on_replicated_groups():
    layout = Layout.contiguous(num_rows=5, num_ranks=4, replicas_per_group=2)
    assert layout == Layout(owners=(0, 0, 0, 1, 1), groups=((0, 1), (2, 3)))
    assert layout.rows_of(1) == (0, 1, 2)
    assert layout.rows_of(4) == ()
    assert layout.rows_by_group == ((0, 1, 2), (3, 4))
    assert layout.ranks_of(3) == (2, 3)
    assert layout.num_ranks == 4


@given(num_rows=st.integers(0, 50), num_ranks=st.integers(1, 8))
def test_contiguous_sizes_differ_by_at_most_one_and_keep_order(num_rows, num_ranks):
    layout = Layout.contiguous(num_rows=num_rows, num_ranks=num_ranks)
    runs = [layout.rows_of(rank) for rank in range(num_ranks)]
    assert [row for run in runs for row in run] == list(range(num_rows))
    assert max(map(len, runs)) - min(map(len, runs)) <= 1


def test_balanced_takes_the_longest_row_first():
    # Graham's tight case for two groups: the best map has 6 and 6, longest first gives 7 and 5.
    layout = Layout.balanced([2, 3, 2, 3, 2], num_ranks=2)
    assert layout.owners == (0, 0, 1, 1, 0)
    assert tokens_per_group(layout, [2, 3, 2, 3, 2]) == [7, 5]


@settings(deadline=None)
@given(lengths=st.lists(st.integers(0, 50), max_size=7), num_groups=st.integers(1, 3))
def test_balanced_is_within_grahams_bound_of_the_best_map(lengths, num_groups):
    layout = Layout.balanced(lengths, num_ranks=num_groups)
    maps = product(range(num_groups), repeat=len(lengths))
    best = min(
        max(
            sum(n for n, o in zip(lengths, owners, strict=True) if o == group)
            for group in range(num_groups)
        )
        for owners in maps
    )
    assert 3 * num_groups * max(tokens_per_group(layout, lengths)) <= (4 * num_groups - 1) * best


@given(lengths=lengths_lists, num_ranks=st.integers(1, 6), slack=st.integers(0, 3))
def test_balanced_respects_the_most_rows_per_group(lengths, num_ranks, slack):
    max_rows = -(-len(lengths) // num_ranks) + slack
    layout = Layout.balanced(lengths, num_ranks=num_ranks, max_rows=max_rows)
    assert layout.num_rows == len(lengths)
    assert max(len(layout.rows_of(rank)) for rank in range(num_ranks)) <= max_rows


def test_a_capacity_too_small_is_refused_with_the_smallest_that_would_do():
    with pytest.raises(ValueError, match=r"5 rows on 2 groups need max_rows >= 3, got 2"):
        Layout.balanced([1] * 5, num_ranks=2, max_rows=2)


class CountedOwners(tuple):
    scans = 0

    def __iter__(self):
        CountedOwners.scans += 1
        return super().__iter__()


def test_the_rows_of_all_ranks_are_found_in_one_scan():
    layout = Layout(owners=CountedOwners((1, 0, 1)), groups=((2,), (0, 1)))
    before = CountedOwners.scans
    assert [layout.rows_of(rank) for rank in range(4)] == [(0, 2), (0, 2), (1,), ()]
    assert CountedOwners.scans == before + 1


def test_rows_that_were_looked_up_leave_a_layout_equal():
    one, two = (Layout(owners=(1, 0, 1), groups=((4,), (2,), (0,))) for _ in range(2))
    assert [one.rows_of(rank) for rank in range(5)] == [(), (), (0, 2), (), (1,)]
    assert (one, hash(one), repr(one)) == (two, hash(two), repr(two))


@pytest.mark.parametrize(
    ("owners", "groups", "message"),
    [
        ((0, 2), ((0,), (1,)), r"owners must be in range\(2\), got 2"),
        ((-1,), ((0,),), r"owners must be in range\(1\), got -1"),
        ((), ((0, 1), (1,)), "rank 1 is named more than once"),
        ((), ((0, 0),), "rank 0 is named more than once"),
        ((), ((-1,),), "ranks must be >= 0, got -1"),
        ((), ((0,), ()), "groups of at least 1 rank"),
        ((), (), "groups of at least 1 rank"),
    ],
)
def test_an_impossible_layout_is_refused(owners, groups, message):
    with pytest.raises(ValueError, match=message):
        Layout(owners=owners, groups=groups)


def test_ranks_that_do_not_divide_into_groups_are_refused():
    with pytest.raises(ValueError, match="multiple of the ranks of a group, got 3 and 2"):
        Layout.contiguous(num_rows=3, num_ranks=3, replicas_per_group=2)
    with pytest.raises(ValueError, match="num_rows must be >= 0, got -1"):
        Layout.contiguous(num_rows=-1, num_ranks=1)


def test_chunks_are_on_ranks_of_their_own_with_their_replicas():
    layout = Layout.contiguous(num_rows=2, num_ranks=8, replicas_per_group=2, num_chunks=2)
    assert layout.groups == ((0, 1, 2, 3), (4, 5, 6, 7))
    assert layout.replicas(1, 0) == (4, 5)
    assert [layout.chunk_of(rank) for rank in range(9)] == [0, 0, 1, 1, 0, 0, 1, 1, 0]
    assert layout.rows_of(3) == (0,)


@given(length=st.integers(0, 100), num_chunks=st.integers(1, 7))
def test_chunks_of_a_row_follow_one_another_and_differ_by_a_token(length, num_chunks):
    bounds = [chunk_bounds(length, chunk, num_chunks) for chunk in range(num_chunks)]
    assert [start for start, _ in bounds] == [0, *(stop for _, stop in bounds[:-1])]
    assert bounds[-1][1] == length
    sizes = [stop - start for start, stop in bounds]
    assert max(sizes) - min(sizes) <= 1


def test_two_ranges_that_do_not_meet_have_nothing_in_common():
    assert overlap((0, 4), (2, 9)) == (2, 4)
    assert overlap((0, 2), (5, 9)) == (5, 5)


def test_chunks_that_do_not_divide_a_group_are_refused():
    with pytest.raises(ValueError, match="got 2 chunks and 3 ranks"):
        Layout(owners=(), groups=((0, 1, 2),), num_chunks=2)
    with pytest.raises(ValueError, match="num_chunks must be >= 1, got 0"):
        Layout(owners=(), groups=((0,),), num_chunks=0)
