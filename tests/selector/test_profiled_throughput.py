from dataclasses import dataclass

import pytest
from earl_selector import (
    ProfiledThroughput,
    ProfileGrid,
    ProfilePoint,
    ProfileSubject,
    ProfileTable,
    ThroughputModel,
)
from hypothesis import given
from hypothesis import strategies as st

GRID = ProfileGrid(degrees=(1, 2), num_responses=(8, 32), context_tokens=(256, 1024, 4096))


@dataclass(frozen=True)
class PowerLaw:
    """The prior: scale x responses^0.5 / context^0.25 / tp, and nothing beyond 100,000 tokens."""

    scale: float = 1.0

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        if context_tokens > 100_000:
            return 0.0
        return self.scale * num_responses**0.5 / context_tokens**0.25 / tp


def profile(rate, keys=tuple(GRID)):
    points = tuple(
        ProfilePoint(
            tp=tp,
            num_responses=num_responses,
            context_tokens=context_tokens,
            tokens_per_s_per_device=rate(tp, num_responses, context_tokens),
        )
        for tp, num_responses, context_tokens in keys
    )
    subject = ProfileSubject(model="tiny", device="cpu", engine="any 1")
    table = ProfileTable(subject=subject, grid=GRID, points=points)
    return ProfiledThroughput(table=table, prior=PowerLaw())


def uneven(tp, num_responses, context_tokens):
    return float(10 * tp + num_responses + 4096 // context_tokens)


def test_measured_points_are_returned_as_they_are():
    model = profile(uneven)
    assert isinstance(model, ThroughputModel)
    for key in GRID:
        assert model.tokens_per_s_per_device(*key) == pytest.approx(uneven(*key))


@given(st.sampled_from([1, 2]), st.integers(8, 32), st.integers(256, 4096))
def test_power_laws_are_interpolated_exactly(tp, num_responses, context_tokens):
    law = PowerLaw(scale=7.0)
    rate = profile(law.tokens_per_s_per_device).tokens_per_s_per_device(
        tp, num_responses, context_tokens
    )
    assert rate == pytest.approx(law.tokens_per_s_per_device(tp, num_responses, context_tokens))


@given(st.integers(8, 32), st.integers(256, 4096))
def test_interpolation_stays_between_the_corners(num_responses, context_tokens):
    rate = profile(uneven).tokens_per_s_per_device(1, num_responses, context_tokens)
    assert uneven(1, 8, 4096) <= rate * (1 + 1e-9)
    assert rate <= uneven(1, 32, 256) * (1 + 1e-9)


@given(st.integers(1, 200), st.integers(16, 90_000))
def test_prior_is_scaled_by_what_was_measured_at_the_edge(num_responses, context_tokens):
    model = profile(PowerLaw(scale=3.0).tokens_per_s_per_device)
    expected = PowerLaw(scale=3.0).tokens_per_s_per_device(1, num_responses, context_tokens)
    rate = model.tokens_per_s_per_device(1, num_responses, context_tokens)
    assert rate == pytest.approx(expected)


def test_crossing_the_edge_of_the_grid_makes_no_jump():
    model = profile(uneven)
    inside, outside = [model.tokens_per_s_per_device(1, 20, length) for length in (4096, 4097)]
    assert outside == pytest.approx(inside, rel=1e-3)


def test_degree_without_points_is_calibrated_by_the_nearest_of_another():
    model = profile(lambda *key: 5.0, keys=[(1, 8, 256), (1, 32, 4096)])
    near = 5.0 / PowerLaw().tokens_per_s_per_device(1, 8, 256)
    far = 5.0 / PowerLaw().tokens_per_s_per_device(1, 32, 4096)
    prior = PowerLaw().tokens_per_s_per_device
    assert model.tokens_per_s_per_device(2, 9, 300) == pytest.approx(near * prior(2, 9, 300))
    assert model.tokens_per_s_per_device(2, 30, 4000) == pytest.approx(far * prior(2, 30, 4000))


def test_own_degree_calibrates_before_a_nearer_one_of_another():
    def rate(tp, num_responses, context_tokens):
        return tp * 4.0 * PowerLaw().tokens_per_s_per_device(tp, num_responses, context_tokens)

    model = profile(rate, keys=[(1, 8, 256), (2, 32, 4096)])
    expected = 8.0 * PowerLaw().tokens_per_s_per_device(2, 8, 300)
    assert model.tokens_per_s_per_device(2, 8, 300) == pytest.approx(expected)


def test_load_no_smaller_than_one_that_did_not_run_does_not_run():
    model = profile(lambda tp, rows, length: 0.0 if (tp, rows, length) == (1, 8, 4096) else 5.0)
    assert model.tokens_per_s_per_device(1, 8, 4096) == 0.0
    assert model.tokens_per_s_per_device(1, 9, 5000) == 0.0
    assert model.tokens_per_s_per_device(1, 32, 4096) == 0.0
    assert model.tokens_per_s_per_device(1, 8, 4000) > 0.0
    assert model.tokens_per_s_per_device(1, 7, 5000) > 0.0
    assert model.tokens_per_s_per_device(2, 9, 5000) > 0.0


def test_where_the_prior_cannot_run_nothing_does():
    assert profile(uneven).tokens_per_s_per_device(1, 8, 100_001) == 0.0


@pytest.mark.parametrize("keys", [(), [(1, 8, 256)]])
def test_profile_of_which_nothing_ran_is_refused(keys):
    with pytest.raises(ValueError, match="says nothing: measure first"):
        profile(lambda *key: 0.0, keys=keys)
