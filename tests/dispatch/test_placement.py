import random
import re

import pytest
from earl_dispatch import Hosts, Layout, plan_transfer
from earl_dispatch.placement import place_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32), num_hosts=st.integers(1, 5), per_host=st.integers(1, 3))
def test_the_map_is_within_a_row_per_host_of_the_minimum_and_of_balance(
    weigh, seed, num_hosts, per_host
):
    rng = random.Random(seed)
    num_ranks = num_hosts * per_host
    lengths = [rng.randint(1, 100) for _ in range(rng.randint(1, 60))]
    groups = tuple((rank,) for rank in range(num_ranks))
    source = Layout(owners=tuple(rng.randrange(num_ranks) for _ in lengths), groups=groups)
    hosts = Hosts.equal(num_ranks=num_ranks, ranks_per_host=per_host)
    sizes = weigh(lengths)
    placement = place_rows(source, Layout(owners=(), groups=groups), sizes=sizes, hosts=hosts)

    plan = plan_transfer(source, placement.layout, sizes=sizes, hosts=hosts)
    assert plan.bytes_between_hosts == placement.bytes_between_hosts
    held = [0] * num_hosts
    for row, owner in enumerate(source.owners):
        held[owner // per_host] += lengths[row]
    share = sum(lengths) / num_hosts
    minimum = sum(max(0, of_host - share) for of_host in held)
    assert placement.bytes_between_hosts_minimum == pytest.approx(minimum)
    longest = max(lengths)
    assert abs(placement.bytes_between_hosts - minimum) <= num_hosts * longest
    filled = [0] * num_hosts
    for row, owner in enumerate(placement.layout.owners):
        filled[owner // per_host] += lengths[row]
    assert max(filled) <= share + longest


def test_a_balanced_batch_stays_where_it_is(weigh):
    source = Layout.contiguous(num_rows=8, num_ranks=4)
    hosts = Hosts.equal(num_ranks=4, ranks_per_host=2)
    placement = place_rows(source, source, sizes=weigh([5] * 8), hosts=hosts)
    assert placement.bytes_between_hosts == placement.bytes_between_hosts_minimum == 0


def test_rows_of_hosts_without_a_group_all_leave(weigh):
    source = Layout.contiguous(num_rows=4, num_ranks=2)
    target = Layout(owners=(), groups=((2,), (3,)))
    placement = place_rows(source, target, sizes=weigh([5] * 4), hosts=Hosts.apart(4))
    assert sorted(placement.layout.owners) == [0, 0, 1, 1]
    assert placement.bytes_between_hosts == placement.bytes_between_hosts_minimum == 20


def test_a_limit_too_small_is_refused_with_one_that_does(weigh):
    source = Layout.contiguous(num_rows=3, num_ranks=2)
    arguments = {"sizes": weigh([5, 5, 5]), "hosts": Hosts.apart(2)}
    message = r"must be >= 10 for these 3 rows to be .* 2 groups \(no map .* below 8\), got 9"
    with pytest.raises(ValueError, match=message):
        place_rows(source, source, max_tokens_per_group=9, **arguments)
    assert place_rows(source, source, max_tokens_per_group=10, **arguments).layout.num_rows == 3


@settings(
    deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_the_limit_that_a_refusal_names_is_the_smallest_that_is_met(weigh, seed):
    rng = random.Random(seed)
    num_groups = rng.randint(1, 6)
    lengths = [rng.randint(0, 20) for _ in range(rng.randint(0, 12))]
    owners = tuple(rng.randrange(num_groups) for _ in lengths)
    source = Layout(owners=owners, groups=tuple((rank,) for rank in range(num_groups)))
    hosts = Hosts(of=tuple(rng.randrange(3) for _ in range(num_groups)))
    sizes = weigh(lengths)

    def refusal(limit):
        try:
            placement = place_rows(
                source, source, sizes=sizes, hosts=hosts, max_tokens_per_group=limit
            )
        except ValueError as error:
            return str(error)
        held = [0] * num_groups
        for row, owner in enumerate(placement.layout.owners):
            held[owner] += lengths[row]
        assert max(held) <= limit
        plan = plan_transfer(source, placement.layout, sizes=sizes, hosts=hosts)
        assert plan.bytes_between_hosts == placement.bytes_between_hosts
        return ""

    named = re.fullmatch(r".*must be >= (\d+) for .* below (\d+)\), got -1", refusal(-1))
    smallest, floor = map(int, named.groups())
    assert floor == max(*lengths, -(-sum(lengths) // num_groups), 0)
    assert smallest >= floor
    assert refusal(smallest) == refusal(smallest + 1) == ""
    assert refusal(smallest - 1) != ""


def test_what_no_limit_asks_for_is_not_moved(weigh):
    source = Layout(owners=(0, 0, 1, 1), groups=((0,), (1,)))
    arguments = {"sizes": weigh([4, 4, 3, 3]), "hosts": Hosts.apart(2)}
    assert place_rows(source, source, **arguments).bytes_between_hosts == 0
    loose = place_rows(source, source, max_tokens_per_group=8, **arguments)
    assert loose.layout == source
    # A row of 4 tokens and one of 3 change places.
    tight = place_rows(source, source, max_tokens_per_group=7, **arguments)
    assert tight.bytes_between_hosts == 7


def test_sizes_of_other_rows_are_refused(weigh):
    layout = Layout.contiguous(num_rows=2, num_ranks=1)
    with pytest.raises(ValueError, match="those of the source's 2 rows, got 3"):
        place_rows(layout, layout, sizes=weigh([1, 1, 1]), hosts=Hosts.apart(1))


def test_a_group_over_two_hosts_is_refused(weigh):
    source = Layout.contiguous(num_rows=2, num_ranks=2, replicas_per_group=2)
    with pytest.raises(ValueError, match=r"group 0 is on hosts \[0, 1\]"):
        place_rows(source, source, sizes=weigh([1, 1]), hosts=Hosts.apart(2))
