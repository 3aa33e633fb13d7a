"""Counts and their rates."""

from earl_envs.evaluation.intervals import wilson_interval
from earl_envs.evaluation.tally import Tally


def test_rates_and_intervals_are_those_of_the_counts():
    tally = Tally(wins=6, draws=2, losses=4)

    assert tally.games == 12
    assert (tally.win_rate, tally.draw_rate, tally.loss_rate) == (6 / 12, 2 / 12, 4 / 12)
    assert tally.score == 7 / 12
    assert tally.win_interval == wilson_interval(6, 12)
    assert tally.draw_interval == wilson_interval(2, 12)
    assert tally.loss_interval == wilson_interval(4, 12)
    assert tally.score_interval == wilson_interval(7, 12)
