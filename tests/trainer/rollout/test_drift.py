"""Log-probs before and after."""

from math import exp

import pytest
from earl_trainer.rollout.drift import compare_logprobs, find_worst_drift


def test_drift_is_that_of_all_tokens_together():
    drift = compare_logprobs([[-1.0, -2.0], [-0.5]], [[-1.0, -2.3], [-0.4]])
    assert drift is not None
    assert drift.num_tokens == 3
    assert drift.mean_difference == pytest.approx(0.4 / 3)
    assert drift.max_difference == pytest.approx(0.3)
    assert drift.token_mult_prob_error == pytest.approx((1 + exp(0.3) + exp(0.1)) / 3)


def test_nothing_scored_has_no_drift_and_different_tokens_are_refused():
    assert compare_logprobs([], []) is None
    assert compare_logprobs([[]], [[]]) is None
    with pytest.raises(ValueError, match="zip"):
        compare_logprobs([[-1.0]], [[-1.0, -2.0]])


def test_the_worst_engine_counts():
    exact, off = [[-1.0, -2.0]], [[-1.0, -2.5]]
    drift = find_worst_drift([exact, exact], [exact, off])
    assert drift is not None
    assert (drift.num_tokens, drift.max_difference) == (2, pytest.approx(0.5))
    assert find_worst_drift([exact, off], [exact]).max_difference == pytest.approx(0.5)
    assert find_worst_drift([exact], [exact]).max_difference == 0.0
    assert find_worst_drift([], []) is None
