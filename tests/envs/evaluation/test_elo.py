"""Ratings against closed forms, simulations and cases without a maximum."""

import math

import numpy as np
import pytest
from earl_envs.evaluation.elo import PairResult, expected_score, fit_elo
from hypothesis import given, settings
from hypothesis import strategies as st

SCALE = math.log(10) / 400


def result(a, b, wins, draws, losses):
    return PairResult(a=a, b=b, wins=wins, draws=draws, losses=losses)


def by_name(ratings):
    return {rating.name: rating for rating in ratings}


def test_400_points_are_odds_of_ten_to_one():
    assert expected_score(400.0, 0.0) == pytest.approx(10 / 11)
    assert expected_score(-400.0, 0.0) == pytest.approx(1 / 11)
    assert expected_score(1e6, 0.0) == 1.0
    assert expected_score(3.0, 3.0) == 0.5
    assert expected_score(-20_000.0, 0.0) == pytest.approx(1e-50)
    assert expected_score(0.0, 1e6) == 0.0


@pytest.mark.parametrize(("wins", "draws", "losses"), [(60, 0, 40), (50, 20, 30), (5, 90, 5)])
def test_two_players_have_the_rating_and_the_error_of_the_closed_form(wins, draws, losses):
    ratings = by_name(fit_elo([result("a", "b", wins, draws, losses)], anchor="b", prior_draws=0))
    n, p = wins + draws + losses, (wins + draws / 2) / (wins + draws + losses)

    assert ratings["a"].elo == pytest.approx(math.log(p / (1 - p)) / SCALE)
    assert ratings["a"].standard_error == pytest.approx(1 / (SCALE * math.sqrt(n * p * (1 - p))))
    assert (ratings["b"].elo, ratings["b"].standard_error) == (0.0, 0.0)
    assert ratings["a"].score == pytest.approx(p)
    assert ratings["a"].num_games == ratings["b"].num_games == n


def test_all_wins_are_finite_under_the_prior_and_have_no_maximum_without():
    sweep = [result("a", "b", 100, 0, 0)]
    rating = by_name(fit_elo(sweep, anchor="b"))["a"]

    # 100.5 points of 101 games.
    assert rating.elo == pytest.approx(400 * math.log10(201))
    assert rating.interval[0] > 200
    with pytest.raises(ValueError, match=r"no finite ratings.*prior_draws must be > 0"):
        fit_elo(sweep, prior_draws=0)


def test_the_priors_weight_vanishes_as_games_are_played():
    def gap(scale):
        sample = [result("a", "b", 30 * scale, 0, 10 * scale)]
        return by_name(fit_elo(sample, anchor="b"))["a"].elo

    exact = 400 * math.log10(3)
    assert abs(gap(100) - exact) < abs(gap(1) - exact) / 50


def test_a_third_player_ties_two_that_never_met():
    ratings = by_name(
        fit_elo([result("a", "b", 10, 0, 5), result("b", "c", 10, 0, 5)], prior_draws=0)
    )
    step = 400 * math.log10(2)

    assert ratings["a"].elo - ratings["b"].elo == pytest.approx(step)
    assert ratings["a"].elo - ratings["c"].elo == pytest.approx(2 * step)
    # Errors add up along the chain, as the two matches are independent.
    assert ratings["c"].standard_error == pytest.approx(math.sqrt(2) * ratings["b"].standard_error)


def test_players_without_a_chain_of_games_are_refused_by_name():
    with pytest.raises(ValueError, match="no chain of games connects 'a' with 'c'"):
        fit_elo([result("a", "b", 1, 0, 1), result("c", "d", 1, 0, 1)])


@settings(derandomize=True, max_examples=30, deadline=None)
@given(data=st.data(), num_players=st.integers(2, 5))
def test_each_player_is_expected_to_score_what_it_scored(data, num_players):
    """The maximum of the likelihood is where points equal their expectation."""
    counts = st.integers(0, 20)
    results = [
        result(f"p{i}", f"p{j}", data.draw(counts), data.draw(counts), data.draw(counts) + 1)
        for i in range(num_players)
        for j in range(i)
    ]
    elo = {name: rating.elo for name, rating in by_name(fit_elo(results, prior_draws=2)).items()}
    points, expected = dict.fromkeys(elo, 0.0), dict.fromkeys(elo, 0.0)
    for r in results:
        n = r.wins + r.draws + r.losses + 2
        points[r.a] += r.wins + (r.draws + 2) / 2
        points[r.b] += r.losses + (r.draws + 2) / 2
        expected[r.a] += n * expected_score(elo[r.a], elo[r.b])
        expected[r.b] += n * expected_score(elo[r.b], elo[r.a])

    assert points == pytest.approx(expected, abs=1e-6)


def test_intervals_hold_the_true_ratings_as_often_as_they_say():
    rng, true = np.random.default_rng(0), {"a": 0.0, "b": 120.0, "c": -80.0}
    inside = total = 0
    for _ in range(300):
        results = [
            result(
                i, j, wins := int(rng.binomial(60, expected_score(true[i], true[j]))), 0, 60 - wins
            )
            for i, j in (("a", "b"), ("a", "c"), ("b", "c"))
        ]
        for rating in fit_elo(results, anchor="a", prior_draws=0):
            if rating.name != "a":
                low, high = rating.interval
                inside += low <= true[rating.name] <= high
                total += 1

    assert 0.92 < inside / total < 0.98


def test_the_anchor_moves_all_ratings_and_no_difference():
    sample = [result("a", "b", 7, 2, 3), result("b", "c", 5, 5, 5)]
    plain, moved = by_name(fit_elo(sample)), by_name(fit_elo(sample, anchor="a", anchor_elo=1500))

    assert {name: rating.elo - plain[name].elo for name, rating in moved.items()} == pytest.approx(
        dict.fromkeys(plain, 1500.0)
    )
    with pytest.raises(ValueError, match="the anchor 'z' has played no game"):
        fit_elo(sample, anchor="z")


@pytest.mark.parametrize(
    ("results", "said"),
    [
        ([], "two players at least"),
        ([result("a", "a", 1, 0, 0)], "a result is of two players"),
        ([result("a", "b", -1, 0, 2)], "counts from 0"),
    ],
)
def test_results_that_are_none_are_refused(results, said):
    with pytest.raises(ValueError, match=said):
        fit_elo(results)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_priors_and_anchors_that_are_no_numbers_are_refused(value):
    with pytest.raises(ValueError, match=rf"prior_draws must be a finite number >= 0, got {value}"):
        fit_elo([result("a", "b", 1, 0, 1)], prior_draws=value)
    if value != -1:
        with pytest.raises(ValueError, match=rf"anchor_elo must be a finite number, got {value}"):
            fit_elo([result("a", "b", 1, 0, 1)], anchor_elo=value)


@pytest.mark.parametrize("num_games", [10**6, 10**12, 10**15])
def test_large_counts_hide_no_small_ones(num_games):
    lopsided = [result("a", "b", num_games, 0, 1), result("b", "c", 3, 0, 1)]
    ratings = by_name(fit_elo(lopsided, anchor="b", prior_draws=0))
    assert ratings["a"].elo == pytest.approx(400 * math.log10(num_games))
    assert ratings["c"].elo == pytest.approx(-400 * math.log10(3))
    sweep = by_name(fit_elo([result("a", "b", num_games, 0, 0)], anchor="b"))
    assert sweep["a"].elo == pytest.approx(400 * math.log10(2 * num_games + 1))


def test_a_group_that_never_scored_against_the_rest_has_no_finite_rating():
    results = [result("a", "b", 5, 0, 5), result("c", "d", 5, 0, 5), result("a", "c", 5, 0, 0)]
    with pytest.raises(ValueError, match=r"no finite ratings, as one side of 'a' and 'c'"):
        fit_elo(results, prior_draws=0)
    assert len(fit_elo(results)) == 4


def test_strongest_first():
    ratings = fit_elo([result("weak", "mid", 2, 0, 8), result("mid", "strong", 2, 0, 8)])
    assert [rating.name for rating in ratings] == ["strong", "mid", "weak"]
