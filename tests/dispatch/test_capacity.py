import random
from itertools import product

from earl_dispatch.capacity import relieve_groups
from hypothesis import given, settings
from hypothesis import strategies as st


def tokens_of(owners, lengths, num_groups):
    held = [0] * num_groups
    for owner, length in zip(owners, lengths, strict=True):
        held[owner] += length
    return held


def test_rows_change_places_where_none_can_simply_move():
    # Longest first leaves 7 and 5 tokens, which no single row can even out.
    owners = relieve_groups((0, 1, 0, 1, 0), (3, 3, 2, 2, 2), host_of_group=(0, 0), limit=6)
    assert tokens_of(owners, (3, 3, 2, 2, 2), 2) == [6, 6]


def test_nothing_moves_below_the_limit():
    owners = (0, 0, 1)
    assert relieve_groups(owners, (5, 5, 1), host_of_group=(0, 0), limit=10) == owners


def test_a_group_of_the_host_takes_rows_before_an_emptier_one_elsewhere():
    lengths, owners = (4, 4, 4, 1), (0, 0, 0, 1)
    relieved = relieve_groups(owners, lengths, host_of_group=(0, 0, 1), limit=8)
    assert tokens_of(relieved, lengths, 3) == [8, 5, 0]
    # When the host has no room left, the other one takes some too.
    relieved = relieve_groups(owners, lengths, host_of_group=(0, 0, 1), limit=5)
    assert tokens_of(relieved, lengths, 3) == [4, 5, 4]


@settings(deadline=None, max_examples=100)
@given(seed=st.integers(0, 2**32))
def test_a_tighter_limit_only_goes_on_and_the_fullest_group_never_grows(seed):
    rng = random.Random(seed)
    num_groups = rng.randint(1, 4)
    lengths = [rng.randint(0, 30) for _ in range(rng.randint(0, 15))]
    owners = tuple(rng.randrange(num_groups) for _ in lengths)
    hosts = tuple(rng.randrange(2) for _ in range(num_groups))
    fullest = max(tokens_of(owners, lengths, num_groups))
    for limit in range(fullest, -1, -1):
        again = relieve_groups(owners, lengths, host_of_group=hosts, limit=limit)
        from_there = relieve_groups(
            relieve_groups(owners, lengths, host_of_group=hosts, limit=limit + 1),
            lengths,
            host_of_group=hosts,
            limit=limit,
        )
        assert again == from_there
        assert max(tokens_of(again, lengths, num_groups)) <= fullest
        fullest = max(tokens_of(again, lengths, num_groups))


@settings(deadline=None, max_examples=60)
@given(lengths=st.lists(st.integers(0, 12), max_size=6))
def test_of_two_groups_no_single_move_or_swap_is_left(lengths):
    owners = relieve_groups((0,) * len(lengths), lengths, host_of_group=(0, 1), limit=-1)
    fullest = max(tokens_of(owners, lengths, 2))
    for other in product((0, 1), repeat=len(lengths)):
        changed = [(a, b) for a, b in zip(owners, other, strict=True) if a != b]
        if len(changed) <= 1 or (len(changed) == 2 and len(set(changed)) == 2):
            assert max(tokens_of(other, lengths, 2)) >= fullest
