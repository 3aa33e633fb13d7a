import math

import pytest
import torch
from earl_trainer.algorithms.kl import KL_ESTIMATORS, KlController, k1, k2, k3, log_ratio
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("policy", "other", "expected"),
    [
        (0.5, 0.5, 0.0),
        # exp(-d) - 1 + d with d = log(policy / other).
        (0.5, 0.25, 0.5 - 1.0 + math.log(2.0)),
        (0.25, 0.5, 2.0 - 1.0 - math.log(2.0)),
    ],
)
def test_k3_of_a_token_equals_the_sum_done_by_hand(policy, other, expected):
    estimate = k3(torch.tensor([math.log(policy)]), torch.tensor([math.log(other)]))
    assert estimate.item() == pytest.approx(expected, abs=1e-6)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(policy=st.floats(-60.0, 0.0, width=32), other=st.floats(-60.0, 0.0, width=32))
def test_k3_is_never_negative_and_always_finite(policy, other):
    estimate = k3(torch.tensor([policy]), torch.tensor([other])).item()
    assert 0.0 <= estimate < math.inf


def test_k3_averaged_over_the_policy_is_the_divergence():
    policy = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    other = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    divergence = (policy * (policy / other).log()).sum().item()
    estimate = (policy * k3(policy.log(), other.log())).sum().item()
    assert estimate == pytest.approx(divergence, rel=1e-12)


def test_extreme_log_ratios_are_held_within_twenty_nats():
    ratios = log_ratio(torch.tensor([0.0, -90.0, -1.0]), torch.tensor([-90.0, 0.0, -3.0]))
    assert ratios.tolist() == [20.0, -20.0, 2.0]


@pytest.mark.parametrize(
    ("estimator", "expected"), [(k1, -math.log(2.0)), (k2, math.log(2.0) ** 2 / 2)]
)
def test_the_other_estimators_of_a_token_equal_the_sum_done_by_hand(estimator, expected):
    estimate = estimator(torch.tensor([math.log(0.25)]), torch.tensor([math.log(0.5)]))
    assert estimate.item() == pytest.approx(expected, rel=1e-6)


def test_k1_averaged_over_the_policy_is_the_divergence_and_its_gradient_is_nothing():
    logits = torch.tensor([0.7, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    policy = logits.log_softmax(-1)
    other = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64).log()
    weights = policy.exp().detach()
    (weights * k1(policy, other)).sum().backward()
    assert logits.grad.abs().max() < 1e-12


def test_the_gradient_of_k2_averaged_over_the_policy_is_that_of_the_divergence():
    logits = torch.tensor([0.7, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64).log()
    policy = logits.log_softmax(-1)
    (exact,) = torch.autograd.grad((policy.exp() * (policy - other)).sum(), logits)
    policy = logits.log_softmax(-1)
    (policy.exp().detach() * k2(policy, other)).sum().backward()
    assert torch.allclose(logits.grad, exact, rtol=1e-12)


@pytest.mark.parametrize("name", KL_ESTIMATORS)
def test_every_estimator_is_nothing_where_the_policies_agree(name):
    logprobs = torch.tensor([-0.3, -40.0])
    assert KL_ESTIMATORS[name](logprobs, logprobs).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("divergence", "expected"),
    [
        (0.1, 0.5),  # On target.
        (0.11, 0.5 * (1 + 0.1 * 50 / 100)),
        (7.0, 0.5 * (1 + 0.2 * 50 / 100)),
        (0.0, 0.5 * (1 - 0.2 * 50 / 100)),
    ],
)
def test_the_weight_of_the_penalty_moves_by_the_bounded_error_over_the_horizon(
    divergence, expected
):
    controller = KlController(target=0.1, horizon=100)
    weight = controller.next_weight(0.5, divergence=divergence, num_tokens=50)
    assert weight == pytest.approx(expected)


def test_without_a_target_the_weight_stays():
    assert KlController(target=0.0, horizon=1).next_weight(0.5, divergence=9.0, num_tokens=9) == 0.5


def test_a_step_of_many_horizons_moves_the_weight_by_a_fifth_and_never_to_nothing():
    controller = KlController(target=0.1, horizon=100_000)
    low = controller.next_weight(0.5, divergence=0.0, num_tokens=900_000)
    assert low == pytest.approx(0.8 * 0.5)
    assert controller.next_weight(low, divergence=9.0, num_tokens=900_000) == pytest.approx(0.48)
