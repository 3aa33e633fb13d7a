import pytest
from earl_dispatch.replays import figure_4, table_1


def test_figure_4_has_the_topologys_ratio_beside_the_papers():
    replayed = figure_4()
    assert [each.scenario.name for each in replayed.simulated] == ["8K", "16K", "32K"]
    assert replayed.measured_ratios == (9.7, 11.0, 11.2)
    for each, measured in zip(replayed.simulated, replayed.measured_ratios, strict=True):
        assert each.ratio("gather_scatter") == pytest.approx(32)
        assert measured < each.ratio("pipelined") == pytest.approx(16)
    # 187 MiB on each of 128 workers: 15/16 of 25.1 GB in and out at 25 GB/s.
    assert replayed.simulated[2].seconds["gather_scatter"] == pytest.approx(1.88, abs=0.01)
    assert replayed.simulated[2].floor_s == pytest.approx(0.0588, abs=0.0001)


def test_latency_takes_from_the_ratio_what_messages_cost():
    with_latency = figure_4(latency_s=1e-5).simulated[0]
    # 8 x 15 messages of each host in the direct transfer, and as many into the controller's and
    # out of it.
    direct, central = (16 * 15 / 16**2 * 46 * 2**20 * 8 / 25e9 * times for times in (1, 32))
    assert with_latency.seconds["all_to_all"] == pytest.approx(direct + 120e-5)
    assert with_latency.seconds["gather_scatter"] == pytest.approx(central + 240e-5)


def test_table_1_at_both_ends_of_a_slow_network():
    replayed = table_1(gbps=25)
    assert len(replayed.simulated) == 6
    assert replayed.measured_ratios == ()
    # 15,625 MiB on 128 hosts at 25 Gbps.
    assert replayed.simulated[0].seconds["gather_scatter"] == pytest.approx(10.4, abs=0.1)
    assert replayed.simulated[0].seconds["all_to_all"] == pytest.approx(0.0406, abs=0.0005)
    assert replayed.simulated[5].seconds["gather_scatter"] == pytest.approx(333, abs=0.5)


def test_the_rate_is_in_the_title_and_in_the_times():
    slow, fast = table_1(gbps=25), table_1(gbps=200)
    assert slow.title.endswith("128 hosts (1,024 GPUs) at 25 Gbps")
    assert figure_4(gbps=12.5).title == "EARL figure 4: 16 hosts x 8 ranks at 12.5 Gbps"
    assert slow.simulated[3].floor_s == pytest.approx(8 * fast.simulated[3].floor_s)
