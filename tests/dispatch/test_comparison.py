import pytest
from earl_dispatch.comparison import Comparison
from earl_dispatch.network import Network
from earl_dispatch.simulator import Scenario, Simulated

SECONDS = {"all_to_all": 0.5, "pipelined": 2.0, "gather_scatter": 4.0, "ray_store": 12345.678}


def simulated(name, *, total_mib=6400):
    scenario = Scenario(
        name=name,
        num_hosts=4,
        ranks_per_host=2,
        total_bytes=total_mib * 2**20,
        network=Network(bytes_per_s=1),
    )
    return Simulated(scenario=scenario, seconds=SECONDS, floor_s=0.4)


def test_every_transport_has_its_time_and_its_ratio_beside_the_measured_one():
    comparison = Comparison(
        title="", simulated=(simulated("8K"), simulated("16K", total_mib=2)),
        measured_ratios=(9.75, 11.0),
    )  # fmt: skip
    assert comparison.rows() == [
        ("", "8K", "16K"),
        ("MiB in all", "6,400", "2"),
        ("MiB of each rank", "800", "0.25"),
        ("floor, s", "0.4", "0.4"),
        ("all_to_all, s", "0.5", "0.5"),
        ("pipelined, s", "2", "2"),
        ("gather_scatter, s", "4", "4"),
        ("ray_store, s", "12,346", "12,346"),
        ("all_to_all / floor", "1.25", "1.25"),
        ("pipelined / all_to_all", "4.0", "4.0"),
        ("gather_scatter / all_to_all", "8.0", "8.0"),
        ("ray_store / all_to_all", "24691.4", "24691.4"),
        ("measured in the paper", "9.8", "11.0"),
    ]


def test_without_measurements_no_row_pretends_any():
    labels = [row[0] for row in Comparison(title="", simulated=(simulated("x"),)).rows()]
    assert labels[-1] == "ray_store / all_to_all"


@pytest.mark.parametrize(("num_simulated", "ratios"), [(0, ()), (2, (1.0,))])
def test_a_table_with_holes_is_refused(num_simulated, ratios):
    with pytest.raises(ValueError, match=f"got {num_simulated} transfers and {len(ratios)} ratios"):
        Comparison(title="", simulated=(simulated("x"),) * num_simulated, measured_ratios=ratios)
