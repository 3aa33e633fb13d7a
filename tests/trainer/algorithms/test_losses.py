import math

import pytest
import torch
from earl_trainer.algorithms.losses import (
    LossInputs,
    LossSettings,
    clipped_policy_loss,
    negative_log_likelihood,
)

SYMMETRIC = LossSettings(clip_low=0.2, clip_high=0.2, kl_coefficient=0.0)


def inputs(ratios, advantages, *, reference_ratios=None):
    """Tokens whose policy is `ratios` times the old one and `reference_ratios` the reference."""
    old = torch.full((1, len(ratios)), -1.5)
    logprobs = (old + torch.tensor([ratios]).log()).requires_grad_()
    reference = (
        old if reference_ratios is None else logprobs - torch.tensor([reference_ratios]).log()
    )
    return LossInputs(
        logprobs=logprobs,
        old_logprobs=old,
        behaviour_logprobs=old,
        staleness=torch.zeros_like(old),
        reference_logprobs=reference.detach(),
        advantages=torch.tensor([advantages]),
        mask=torch.ones(1, len(ratios), dtype=torch.bool),
    )


# ratio, advantage -> loss, gradient by the log-prob (-A ratio, or 0 where clipped), clipped
CASES = [
    (0.5, 2.0, -1.0, -1.0, False),
    (1.0, 2.0, -2.0, -2.0, False),
    (1.1, 2.0, -2.2, -2.2, False),
    (1.5, 2.0, -2.4, 0.0, True),
    (0.5, -2.0, 1.6, 0.0, True),
    (0.9, -2.0, 1.8, 1.8, False),
    (1.0, -2.0, 2.0, 2.0, False),
    (1.5, -2.0, 3.0, 3.0, False),
]


def test_clipped_loss_and_its_gradient_equal_the_table_for_both_signs_and_both_sides():
    ratios, advantages, losses, gradients, clipped = map(list, zip(*CASES, strict=True))
    given = inputs(ratios, advantages)
    outputs = clipped_policy_loss(given, SYMMETRIC)
    outputs.loss.sum().backward()
    assert outputs.loss[0].tolist() == pytest.approx(losses, rel=1e-5)
    assert given.logprobs.grad[0].tolist() == pytest.approx(gradients, rel=1e-5, abs=1e-7)
    assert outputs.metrics["clip_fraction"][0].tolist() == [float(flag) for flag in clipped]
    assert outputs.metrics["ratio"][0].tolist() == pytest.approx(ratios, rel=1e-5)


def test_clip_higher_moves_only_the_upper_bound():
    settings = LossSettings(clip_low=0.2, clip_high=0.5, kl_coefficient=0.0)
    outputs = clipped_policy_loss(inputs([1.4, 1.6, 0.5], [1.0, 1.0, -1.0]), settings)
    assert outputs.loss[0].tolist() == pytest.approx([-1.4, -1.5, 0.8], rel=1e-5)
    assert outputs.metrics["clip_fraction"][0].tolist() == [0.0, 1.0, 1.0]


def test_kl_metric_is_the_divergence_of_the_old_policy_from_the_new():
    # d = log(old / new) = -log 2 on a sample of the old policy: exp(log 2) - 1 - log 2.
    outputs = clipped_policy_loss(inputs([2.0], [1.0]), SYMMETRIC)
    assert outputs.metrics["kl"].item() == pytest.approx(1.0 - math.log(2.0), rel=1e-5)


def test_reference_term_pulls_towards_the_reference_where_the_advantage_is_zero():
    settings = LossSettings(clip_low=0.2, clip_high=0.2, kl_coefficient=0.5)
    given = inputs([1.0, 1.0], [0.0, 0.0], reference_ratios=[2.0, 0.5])
    outputs = clipped_policy_loss(given, settings)
    outputs.loss.sum().backward()
    divergence = [0.5 - 1.0 + math.log(2.0), 2.0 - 1.0 - math.log(2.0)]
    assert outputs.metrics["reference_kl"][0].tolist() == pytest.approx(divergence, rel=1e-5)
    assert outputs.loss[0].tolist() == pytest.approx([0.5 * k for k in divergence], rel=1e-5)
    # beta (1 - exp(-d)) with d = log 2 and -log 2: down where the policy is above the reference.
    assert given.logprobs.grad[0].tolist() == pytest.approx([0.25, -0.5], rel=1e-5)


def test_without_a_coefficient_the_reference_is_not_looked_at():
    given = inputs([1.3], [1.0], reference_ratios=[math.nan])
    outputs = clipped_policy_loss(given, SYMMETRIC)
    assert outputs.loss.item() == pytest.approx(-1.2, rel=1e-5)
    assert "reference_kl" not in outputs.metrics


def test_likelihood_loss_is_the_weighted_negative_logprob():
    given = inputs([1.0, 2.0], [1.0, 3.0])
    outputs = negative_log_likelihood(given, SYMMETRIC)
    outputs.loss.sum().backward()
    assert outputs.loss[0].tolist() == pytest.approx([1.5, 3.0 * (1.5 - math.log(2.0))], rel=1e-5)
    assert given.logprobs.grad[0].tolist() == [-1.0, -3.0]
