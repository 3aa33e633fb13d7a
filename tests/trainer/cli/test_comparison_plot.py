"""The picture of compared transfers."""

from dataclasses import replace
from pathlib import Path

import pytest
from earl_trainer.cli.comparison_plot import draw_comparisons
from earl_trainer.cli.comparisons import own_cluster
from matplotlib.image import imread

OWN = own_cluster(num_hosts=4, ranks_per_host=2, total_mib=8.0, gbps=8.0, latency_us=0.0)


@pytest.fixture
def draw(tmp_path):
    def draw(*comparisons):
        draw_comparisons(comparisons, tmp_path / "plan.png")
        return imread(tmp_path / "plan.png")

    return draw


def test_every_comparison_has_a_panel(draw):
    one, three = draw(OWN), draw(OWN, OWN, OWN)
    assert three.shape[1] - one.shape[1] == 2 * 4.5 * 120
    assert one.shape[0] == three.shape[0]


def test_times_and_measured_ratios_are_in_the_picture(draw):
    plain = draw(OWN)
    (each,) = OWN.simulated
    slower = replace(each, seconds={**each.seconds, "pipelined": 2 * each.seconds["pipelined"]})
    assert (draw(replace(OWN, simulated=(slower,))) != plain).any()
    assert (draw(replace(OWN, measured_ratios=(9.7,))) != plain).any()
    assert (draw(replace(OWN, simulated=(replace(each, floor_s=each.floor_s / 2),))) != plain).any()


def test_a_picture_that_cannot_be_written_is_one_line():
    with pytest.raises(ValueError, match=r"^cannot write the picture '/no/such/x\.png': No such"):
        draw_comparisons([OWN], Path("/no/such/x.png"))
