from dataclasses import replace

import pytest
from earl_dispatch.network import Network, balanced_floors
from earl_dispatch.simulator import MAX_PARTS, Scenario, plan_of, simulate

SMALL = Scenario(
    name="small",
    num_hosts=4,
    ranks_per_host=2,
    total_bytes=32 * 1000,
    network=Network(bytes_per_s=1000),
)


def test_every_host_sends_every_other_the_same():
    loads = plan_of(4, 2).link_bytes
    assert {loads[a, b] for a in range(4) for b in range(4) if a != b} == {2}


def test_without_latency_the_times_are_the_closed_forms():
    simulated = simulate(SMALL)
    floors = balanced_floors(SMALL.total_bytes, 4, SMALL.network)
    assert simulated.seconds["all_to_all"] == pytest.approx(floors["all_to_all"])
    assert simulated.seconds["all_to_all"] == pytest.approx(simulated.floor_s)
    # The controller's own host needs no network, and the other seven ranks' rows come and go.
    assert simulated.seconds["gather_scatter"] == pytest.approx(floors["gather_scatter"])
    assert simulated.seconds["pipelined"] == pytest.approx(floors["pipelined"])
    assert simulated.ratio("gather_scatter") == pytest.approx(2 * 4)
    assert simulated.ratio("pipelined") == pytest.approx(4)


def test_latency_is_paid_for_every_message():
    late = replace(SMALL, network=Network(bytes_per_s=1000, latency_s=1.0))
    # From each of two ranks a message to each of three other hosts.
    extra = simulate(late).seconds["all_to_all"] - simulate(SMALL).seconds["all_to_all"]
    assert extra == pytest.approx(6.0)


def test_the_store_takes_the_controllers_time():
    seconds = simulate(SMALL).seconds
    assert list(seconds) == ["all_to_all", "pipelined", "gather_scatter", "ray_store"]
    assert seconds["ray_store"] == seconds["gather_scatter"] == 2 * seconds["pipelined"]


def test_ranks_share_a_hosts_link():
    alone = replace(SMALL, ranks_per_host=1)
    assert SMALL.rank_bytes * 2 == alone.rank_bytes == 8000
    assert simulate(alone).seconds["all_to_all"] == simulate(SMALL).seconds["all_to_all"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hosts": 1}, "2 hosts or more .* got 1 hosts, 2 ranks on each and 32000 bytes"),
        ({"ranks_per_host": 0}, "got 4 hosts, 0 ranks on each"),
        ({"total_bytes": 0}, "and 0 bytes"),
        ({"num_hosts": 1024}, f"must be <= {MAX_PARTS}, got 1024.2 x 2; one rank can stand for"),
    ],
)
def test_a_scenario_that_cannot_be_simulated_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(SMALL, **change)
