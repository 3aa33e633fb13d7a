import pytest
from earl_selector import ParallelLayout
from earl_selector.layout import find_longest_chain
from hypothesis import given
from hypothesis import strategies as st

degree_sets = st.lists(st.integers(1, 12), max_size=5, unique=True).map(tuple)


def test_eight_ranks_take_their_shards_in_bit_reversed_order():
    layout = ParallelLayout(num_ranks=16, tp=8, degrees=(8, 1, 4, 2))
    shards = [4 * (rank % 2) + 2 * (rank // 2 % 2) + rank // 4 % 2 for rank in range(16)]
    assert [layout.shard_of(rank) for rank in range(16)] == shards
    assert layout.ranks_of(1) == (8, 12, 10, 14, 9, 13, 11, 15)


def test_order_nests_only_the_degrees_that_there_are():
    assert ParallelLayout(num_ranks=8, tp=8, degrees=(4, 8)).ranks_of(0) == ((
        0,
        4,
        1,
        5,
        2,
        6,
        3,
        7,
    ))
    assert ParallelLayout(num_ranks=8, tp=8).ranks_of(0) == tuple(range(8))


def test_mixed_radices_nest_too():
    # Rank r holds third r mod 3 at degree 3, of which half r // 3 at degree 6.
    layout = ParallelLayout(num_ranks=6, tp=6, degrees=(3, 6))
    assert [layout.shard_of(rank) for rank in range(6)] == [0, 2, 4, 1, 3, 5]


def test_chain_is_the_longest_in_which_each_degree_divides_the_next():
    assert find_longest_chain((8, 3, 2, 6, 1, 4)) == (1, 2, 4, 8)
    assert find_longest_chain((2, 3)) == (2,)
    assert find_longest_chain(()) == ()


@given(degree_sets, st.integers(1, 12), st.integers(1, 4))
def test_shards_of_an_engine_are_a_permutation_and_intervals_tile_the_size(degrees, tp, dp):
    layout = ParallelLayout(num_ranks=tp * dp, tp=tp, degrees=degrees)
    assert layout.dp == dp
    for engine in range(dp):
        ranks = layout.ranks_of(engine)
        assert [layout.shard_of(rank) for rank in ranks] == list(range(tp))
        assert {layout.engine_of(rank) for rank in ranks} == {engine}
        intervals = [layout.interval(3 * tp, rank) for rank in ranks]
        assert intervals == [(3 * shard, 3 * shard + 3) for shard in range(tp)]


def test_impossible_layouts_and_sizes_are_refused():
    with pytest.raises(ValueError, match="tp 4 does not divide num_ranks 6"):
        ParallelLayout(num_ranks=6, tp=4)
    with pytest.raises(ValueError, match=r"must be >= 1, got 4, 2 and \(0,\)"):
        ParallelLayout(num_ranks=4, tp=2, degrees=(0,))
    with pytest.raises(ValueError, match="tp 4 does not divide a sharded size of 6"):
        ParallelLayout(num_ranks=4, tp=4).interval(6, 0)
