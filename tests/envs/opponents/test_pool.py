"""A pool of past opponents."""

import numpy as np
import pytest
from earl_envs import RandomOpponent, make_game, make_opponent
from earl_envs.opponents.pool import (
    OpponentPool,
    PoolMember,
    draw_opponent,
    expected_score,
)
from earl_envs.opponents.scripted import FirstLegal


def pool_of(*, sampling="uniform", learner_rating=0.0, ratings=(0.0, 0.0, 0.0)):
    members = [
        PoolMember(name=f"step-{step}", opponent=RandomOpponent(), step=step, rating=rating)
        for step, rating in zip((10, 20, 30), ratings, strict=True)
    ]
    return OpponentPool(members=members, sampling=sampling, learner_rating=learner_rating)


def test_uniform_gives_each_member_the_same_share():
    assert pool_of().probabilities == pytest.approx({f"step-{s}": 1 / 3 for s in (10, 20, 30)})


def test_recency_halves_and_thirds_the_older_ones():
    # Weights 1/3, 1/2 and 1 sum to 11/6.
    shares = pool_of(sampling="recency").probabilities
    assert list(shares.values()) == pytest.approx([2 / 11, 3 / 11, 6 / 11])


def test_ratings_too_far_apart_for_a_weight_are_drawn_equally():
    shares = pool_of(sampling="rating", learner_rating=200_000.0).probabilities
    assert list(shares.values()) == pytest.approx([1 / 3] * 3)
    shares = pool_of(sampling="rating", ratings=(0.0, 0.0, 200_000.0)).probabilities
    assert shares["step-30"] > 0.6


def test_members_of_one_step_are_equally_recent():
    pool = pool_of(sampling="recency").add(PoolMember(name="twin", opponent=FirstLegal(), step=30))
    assert pool.probabilities["twin"] == pool.probabilities["step-30"]


def test_rating_prefers_those_that_the_learner_loses_to():
    # At 400 points apart the stronger takes 10/11: weights (1/11)^2, (1/2)^2, (10/11)^2.
    shares = pool_of(sampling="rating", ratings=(-400.0, 0.0, 400.0)).probabilities
    weights = np.array([1 / 121, 1 / 4, 100 / 121])
    assert list(shares.values()) == pytest.approx((weights / weights.sum()).tolist())


def test_draws_follow_the_shares():
    pool, rng = pool_of(sampling="recency"), np.random.default_rng(0)
    drawn = [pool.draw(rng)[0].name for _ in range(2_200)]
    # The standard deviation of each count is at most 24.
    assert [drawn.count(f"step-{s}") for s in (10, 20, 30)] == pytest.approx(
        [400, 600, 1200], abs=120
    )


def test_a_rating_moves_by_what_a_game_was_not_expected_to_bring():
    pool = pool_of(ratings=(0.0, 400.0, 0.0))
    after = pool.update_rating("step-20", learner_score=1)
    # Expected 1/11 of the point, got all of it: 16 * 10/11 points change hands.
    assert after.learner_rating == pytest.approx(160 / 11)
    assert [m.rating for m in after.members] == pytest.approx([0, 400 - 160 / 11, 0])
    assert pool.learner_rating == 0  # the old pool is as it was
    assert pool.members[1].rating == 400


def test_a_draw_among_equals_changes_nothing():
    after = pool_of().update_rating("step-10", learner_score=0.5)
    assert (after.learner_rating, after.members[0].rating) == (0, 0)


def test_expected_scores_of_two_players_sum_to_one():
    assert expected_score(120, -30) + expected_score(-30, 120) == pytest.approx(1)
    assert expected_score(200, 0) == pytest.approx(0.7597, abs=1e-4)


def test_an_episode_meets_one_member_and_a_plain_opponent_is_itself():
    first, rng = FirstLegal(), np.random.default_rng(0)
    assert draw_opponent(first, rng) is first
    inner = OpponentPool(members=[PoolMember(name="first", opponent=first)])
    outer = OpponentPool(members=[PoolMember(name="inner", opponent=inner)])
    assert draw_opponent(outer, rng) is first


def test_asked_directly_a_pool_plays_the_moves_of_its_members():
    game, pool = make_game("earl/TicTacToe-v0"), make_opponent("pool:first,scripted:8")
    rng = np.random.default_rng(0)
    assert {pool.move(game, (0, 0), 0, rng) for _ in range(40)} == {0, 8}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OpponentPool(members=[]), "a pool needs at least one member, got none"),
        (lambda: pool_of(sampling="recent"), "unknown sampling 'recent'; did you mean 'recency'?"),
        (
            lambda: pool_of().add(PoolMember(name="step-10", opponent=FirstLegal())),
            "the names of a pool's members must differ",
        ),
        (lambda: pool_of().update_rating("step-1", learner_score=1), "unknown member 'step-1'"),
        (
            lambda: pool_of().update_rating("step-10", learner_score=2),
            r"learner_score must be in 0\.\.1, got 2",
        ),
    ],
)
def test_bad_pools_are_refused(make, message):
    with pytest.raises(ValueError, match=message.replace("?", r"\?")):
        make()
