import pytest
from earl_dispatch.network import Network, balanced_floors
from earl_dispatch.simulator import Scenario, figure_4, plan_of, simulate, table_1

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
    late = Scenario(
        name="late",
        num_hosts=4,
        ranks_per_host=2,
        total_bytes=32 * 1000,
        network=Network(bytes_per_s=1000, latency_s=1.0),
    )
    # One message to each of three other hosts.
    extra = simulate(late).seconds["all_to_all"] - simulate(SMALL).seconds["all_to_all"]
    assert extra == pytest.approx(3.0)


def test_figure_4_has_the_topologys_ratio_beside_the_papers():
    replayed = figure_4()
    assert [simulated.scenario.name for simulated, _ in replayed] == ["8K", "16K", "32K"]
    for simulated, paper in replayed:
        assert simulated.ratio("gather_scatter") == pytest.approx(32, rel=0.01)
        assert paper < simulated.ratio("pipelined") == pytest.approx(16, rel=0.01)
    assert replayed[2][0].seconds["gather_scatter"] == pytest.approx(1.88, abs=0.01)


def test_table_1_at_1k_on_a_slow_network():
    simulated = table_1(gbps=25)[0]
    # 15,625 MiB on 128 hosts at 25 Gbps.
    assert simulated.seconds["gather_scatter"] == pytest.approx(10.4, abs=0.1)
    assert simulated.seconds["all_to_all"] == pytest.approx(0.0406, abs=0.0005)
