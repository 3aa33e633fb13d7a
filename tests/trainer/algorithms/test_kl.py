import math

import pytest
import torch
from earl_trainer.algorithms.kl import k3, log_ratio
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
