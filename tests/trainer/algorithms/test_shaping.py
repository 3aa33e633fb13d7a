import pytest
from earl_trainer.algorithms.shaping import RewardShaping
from hypothesis import given
from hypothesis import strategies as st


def test_without_constants_a_reward_stays_what_it_is():
    assert RewardShaping(max_tokens=10).shape(-1.5, context_tokens=10) == -1.5


@pytest.mark.parametrize(("reward", "shaped"), [(0.25, 0.5), (3.0, 2.0), (-3.0, -2.0)])
def test_a_reward_is_scaled_and_then_bounded(reward, shaped):
    shaping = RewardShaping(scale=2.0, max_abs=2.0)
    assert shaping.shape(reward, context_tokens=1) == shaped


@pytest.mark.parametrize(
    ("context_tokens", "penalty"), [(80, 0.0), (81, 0.05), (90, 0.5), (100, 1.0), (150, 1.0)]
)
def test_the_penalty_grows_over_the_last_fifth_of_the_context_and_no_further(
    context_tokens, penalty
):
    shaping = RewardShaping(max_tokens=100, overlong_share=0.2)
    assert shaping.shape(1.0, context_tokens=context_tokens) == pytest.approx(1.0 - penalty)


@given(
    parts=st.lists(st.floats(-100, 100), min_size=1),
    scale=st.floats(0.01, 10),
    max_abs=st.sampled_from([0.0, 0.5, 3.0]),
)
def test_parts_that_are_shaped_add_up_to_the_shaped_whole(parts, scale, max_abs):
    shaping, whole = RewardShaping(scale=scale, max_abs=max_abs), sum(parts)
    shaped = shaping.shape(whole, context_tokens=1)
    factor = shaping.factor(whole)
    assert sum(factor * part for part in parts) == pytest.approx(shaped, rel=1e-6, abs=1e-6)
    assert 0.0 <= factor <= scale
