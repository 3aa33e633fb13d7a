from collections import Counter

import pytest
from earl_dispatch import Hosts, Layout, RowSizes, plan_transfer
from earl_dispatch.layout import chunk_bounds
from earl_dispatch.network import (
    Load,
    Network,
    balanced_floors,
    floor_time_s,
    host_bounds,
    predicted_time_s,
    round_loads,
)
from earl_dispatch.testing import random_problem
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def test_the_busiest_direction_of_the_busiest_host_decides():
    network = Network(bytes_per_s=100, latency_s=0.5)
    # Host 0 sends 300 bytes in two messages and receives 100 in one.
    loads = {(0, 1): 100, (0, 2): 200, (1, 0): 100, (2, 2): 10**6, (1, 2): 0}
    loads = {way: Load(num_bytes=num_bytes) for way, num_bytes in loads.items()}
    assert network.time_s(loads) == pytest.approx(2 * 0.5 + 3.0)


def test_every_message_between_ranks_of_two_hosts_has_its_latency(weigh):
    source = Layout(owners=(0, 1), groups=((0,), (1,)))
    target = Layout(owners=(0, 1), groups=((2,), (3,)))
    plan = plan_transfer(source, target, sizes=weigh([30, 20]), hosts=Hosts(of=(0, 0, 1, 1)))
    assert round_loads(plan, 0) == {(0, 1): Load(num_bytes=50, num_messages=2)}
    network = Network(bytes_per_s=10, latency_s=0.25)
    assert predicted_time_s(plan, network) == pytest.approx(2 * 0.25 + 5.0)


def test_a_rate_is_given_in_bits():
    assert Network.gbps(200).bytes_per_s == 25e9


def test_a_plan_takes_its_rounds_one_after_the_other(weigh):
    source = Layout(owners=(0, 0), groups=((0,),))
    target = Layout(owners=(0, 0), groups=((1, 2),))
    plan = plan_transfer(source, target, sizes=weigh([30, 20]), hosts=Hosts(of=(0, 1, 1)))
    network = Network(bytes_per_s=10)
    # The neighbour gets its copy without the network.
    assert predicted_time_s(plan, network) == pytest.approx(5.0)
    assert floor_time_s(plan, network) == pytest.approx(5.0)
    assert host_bounds(plan) == ({1: 50}, {0: 50})


def test_rows_that_several_hosts_hold_need_not_leave_any_of_them(weigh):
    source = Layout(owners=(0,), groups=((0, 1),))
    target = Layout(owners=(0,), groups=((2,),))
    plan = plan_transfer(source, target, sizes=weigh([30]))
    assert host_bounds(plan) == ({2: 30}, {})


def test_a_host_gives_out_only_the_chunks_that_others_need(weigh):
    source = Layout(owners=(0,), groups=((0,),))
    # The first half is needed beside the holder, the second on another host, twice.
    target = Layout(owners=(0,), groups=((1, 3, 2, 4),), num_chunks=2)
    plan = plan_transfer(source, target, sizes=weigh([31]), hosts=Hosts(of=(0, 0, 1, 0, 2)))
    assert host_bounds(plan) == ({1: 16, 2: 16}, {0: 16})


def test_a_host_that_alone_holds_a_chunk_gives_it_out(weigh):
    source = Layout(owners=(0,), groups=((0, 1, 2, 3),), num_chunks=2)
    target = Layout(owners=(0,), groups=((4,),))
    # Hosts 0 and 1 hold the first half, host 1 alone the second.
    plan = plan_transfer(source, target, sizes=weigh([30]), hosts=Hosts(of=(0, 1, 1, 1, 2)))
    assert host_bounds(plan) == ({2: 30}, {1: 15})


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 2**32))
def test_no_plan_is_predicted_to_take_less_than_its_floor(seed):
    batch, source, target, hosts = random_problem(seed)
    sizes = RowSizes.of_columns(batch)
    plan = plan_transfer(source, target, sizes=sizes, hosts=hosts)
    network = Network(bytes_per_s=1)
    assert floor_time_s(plan, network) <= predicted_time_s(plan, network)


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_hosts_give_out_the_tokens_that_they_alone_hold_and_others_need(weigh, seed):
    batch, source, target, hosts = random_problem(seed)
    lengths = batch.lengths.tolist()
    plan = plan_transfer(source, target, sizes=weigh(lengths), hosts=hosts)
    expected = Counter()
    for row, length in enumerate(lengths):
        for token in range(length):
            holding, needing = (
                hosts_of_token(x, hosts, row, token, length) for x in (source, target)
            )
            if len(holding) == 1 and needing - holding:
                expected[min(holding)] += 1
    assert host_bounds(plan)[1] == expected


def hosts_of_token(layout, hosts, row, token, length):
    return {
        hosts.of[rank]
        for rank in layout.ranks_of(row)
        if token in range(*chunk_bounds(length, layout.chunk_of(rank), layout.num_chunks))
    }


def test_the_floors_of_a_balanced_batch_are_those_of_the_paper_sizes():
    # 187 MiB on each of 128 workers, 16 hosts at 200 Gbps.
    floors = balanced_floors(128 * 187 * 2**20, 16, Network.gbps(200))
    assert floors["gather_scatter"] == pytest.approx(1.88, abs=0.01)
    assert floors["all_to_all"] == pytest.approx(0.059, abs=0.001)
    assert floors["pipelined"] * 2 == floors["gather_scatter"]


def test_an_impossible_network_is_refused():
    with pytest.raises(ValueError, match="got 0 and 0"):
        Network(bytes_per_s=0)
