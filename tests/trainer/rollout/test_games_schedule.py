"""Games are added evenly: over the steps, over the groups, over the seats."""

import pytest
from earl_trainer.rollout.games_schedule import GamesSchedule
from hypothesis import given, settings
from hypothesis import strategies as st

GROUPS = st.integers(1, 24)
SEATS = st.integers(1, 3)


def seats_games(games, num_seats):
    """The games of each seat's groups; seats alternate."""
    return [games[seat::num_seats] for seat in range(min(num_seats, len(games)))]


@settings(derandomize=True, max_examples=100)
@given(
    most=st.integers(1, 6),
    ramp_steps=st.integers(1, 30),
    num_groups=GROUPS,
    num_seats=SEATS,
)
def test_the_mean_rises_evenly_to_most_as_near_as_groups_allow(
    most, ramp_steps, num_groups, num_seats
):
    schedule = GamesSchedule(most=most, ramp_steps=ramp_steps)
    for step in range(ramp_steps + 3):
        games = schedule.of_groups(step, num_groups=num_groups, num_seats=num_seats)
        mean = 1 + (most - 1) * min(step, ramp_steps) / ramp_steps
        assert schedule.mean(step) == pytest.approx(mean)
        assert abs(sum(games) / num_groups - mean) <= 0.5 / num_groups + 1e-9
        assert max(games) - min(games) <= 1
    assert schedule.of_groups(0, num_groups=num_groups, num_seats=num_seats) == (1,) * num_groups
    assert set(games) == {most}


@settings(derandomize=True, max_examples=100)
@given(step=st.integers(0, 20), num_rounds=st.integers(1, 8), num_seats=SEATS)
def test_no_seat_plays_more_games_than_another(step, num_rounds, num_seats):
    games = GamesSchedule(most=3, ramp_steps=20).of_groups(
        step, num_groups=num_rounds * num_seats, num_seats=num_seats
    )
    totals = [sum(own) for own in seats_games(games, num_seats)]
    assert max(totals) - min(totals) <= 1


def test_longer_groups_are_spread_among_the_groups():
    games = GamesSchedule(most=2, ramp_steps=4).of_groups(1, num_groups=16, num_seats=2)
    first, second = sum(games[:8]), sum(games[8:])
    assert first == second == 8 + 2, "workers play consecutive groups"


def test_without_a_ramp_every_step_has_all_games():
    schedule = GamesSchedule(most=3)
    assert schedule.of_groups(0, num_groups=4, num_seats=2) == (3, 3, 3, 3)
    assert schedule.of_groups(9, num_groups=4, num_seats=2) == (3, 3, 3, 3)
