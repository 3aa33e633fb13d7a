"""Which transfers `earl plan dispatch` compares, and in which words."""

import pytest
from earl_trainer.cli.comparisons import describe, notes, own_cluster, replays


def small(**changes):
    arguments = {
        "num_hosts": 4,
        "ranks_per_host": 2,
        "total_mib": 8.0,
        "gbps": 8.0,
        "latency_us": 0.0,
    }
    return own_cluster(**(arguments | changes))


def test_an_own_cluster_takes_its_rate_and_latency():
    # 2 MiB a host, three quarters of it leave, at 1 GB/s.
    (plain,), (late,) = small().simulated, small(latency_us=1000.0).simulated
    assert plain.floor_s == pytest.approx(1.5 * 2**20 / 1e9)
    # From each of two ranks a message to each of three other hosts.
    assert late.seconds["all_to_all"] - plain.seconds["all_to_all"] == pytest.approx(6 * 1e-3)


@pytest.mark.parametrize(("gbps", "rates"), [(None, [200, 25, 200]), (40.0, [40, 40])])
def test_the_paper_is_replayed_at_its_own_rates_or_at_a_given_one(gbps, rates):
    titles = [comparison.title for comparison in replays(gbps=gbps, latency_us=0.0)]
    assert [title.split(" at ")[1] for title in titles] == [f"{rate} Gbps" for rate in rates]


def test_tables_stand_under_their_titles_and_above_what_is_counted():
    text = describe([small(), small(num_hosts=2)], latency_us=0.5)
    first, second, counted = text.split("\n\n")
    assert first.splitlines()[0] == "4 hosts x 2 ranks at 8 Gbps"
    assert second.splitlines()[0] == "2 hosts x 2 ranks at 8 Gbps"
    assert "gather_scatter / all_to_all         8.0" in first
    assert counted.startswith("Counted: bytes over one full-duplex link")
    assert "0.5\nus for each message" in counted
    assert max(map(len, text.splitlines())) <= 100


def test_the_paper_is_explained_only_beside_its_measurements():
    figure, *tables = replays(gbps=None, latency_us=0.0)
    assert "a third of 2M" in notes([figure], latency_us=0.0)
    assert "a third of 2M" not in notes(tables, latency_us=0.0)
    for measured in figure.measured_ratios:
        assert 0.3 < measured / 32 < 0.36
