import pytest
from earl_dispatch import Hosts, Layout, plan_transfer
from earl_dispatch.network import (
    Network,
    balanced_floors,
    floor_time_s,
    host_bounds,
    predicted_time_s,
)


def test_the_busiest_direction_of_the_busiest_host_decides():
    network = Network(bytes_per_s=100, latency_s=0.5)
    # Host 0 sends 300 bytes in two messages and receives 100 in one.
    loads = {(0, 1): 100, (0, 2): 200, (1, 0): 100, (2, 2): 10**6, (1, 2): 0}
    assert network.time_s(loads) == pytest.approx(2 * 0.5 + 3.0)


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


def test_the_floors_of_a_balanced_batch_are_those_of_the_paper_sizes():
    # 187 MiB on each of 128 workers, 16 hosts at 200 Gbps.
    floors = balanced_floors(128 * 187 * 2**20, 16, Network.gbps(200))
    assert floors["gather_scatter"] == pytest.approx(1.88, abs=0.01)
    assert floors["all_to_all"] == pytest.approx(0.059, abs=0.001)
    assert floors["pipelined"] * 2 == floors["gather_scatter"]


def test_an_impossible_network_is_refused():
    with pytest.raises(ValueError, match="got 0 and 0"):
        Network(bytes_per_s=0)
