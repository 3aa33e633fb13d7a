import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from earl_trainer.algorithms.importance import WeightRules
from earl_trainer.algorithms.losses import (
    LossInputs,
    LossSettings,
    clipped_policy_loss,
    clipped_weight_loss,
    negative_log_likelihood,
    policy_gradient_loss,
    sequence_policy_loss,
)
from earl_trainer.algorithms.off_policy import CORRECTIONS

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
        entropy=-logprobs,
        old_logprobs=old,
        behaviour_logprobs=old,
        staleness=torch.zeros_like(old),
        reference_logprobs=reference.detach(),
        advantages=torch.tensor([advantages]),
        rows=torch.zeros(1, len(ratios), dtype=torch.int64),
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


@pytest.mark.parametrize("loss", [clipped_policy_loss, sequence_policy_loss, clipped_weight_loss])
def test_kl_is_to_the_policy_before_the_step_or_is_not_told(loss):
    # The engine's policy is another one; d = -log 2 as above.
    given = inputs([2.0], [1.0])
    given = replace(given, behaviour_logprobs=given.old_logprobs - 0.7)
    for name, knows in (
        ("none", True),
        ("decoupled", True),
        ("loglinear", False),
        ("naive", False),
    ):
        metrics = loss(given, replace(SYMMETRIC, correction=CORRECTIONS[name])).metrics
        assert ("kl" in metrics) is knows
        if knows:
            assert metrics["kl"].item() == pytest.approx(1.0 - math.log(2.0), rel=1e-5)


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


def test_a_dual_clip_bounds_the_loss_of_a_negative_advantage_alone():
    # ratio 5 with A = -2: 10 is bounded by 3 x 2; with A = 2 the clip at 1.2 stands.
    settings = replace(SYMMETRIC, dual_clip=3.0)
    given = inputs([5.0, 2.0, 5.0], [-2.0, -2.0, 2.0])
    outputs = clipped_policy_loss(given, settings)
    outputs.loss.sum().backward()
    assert outputs.loss[0].tolist() == pytest.approx([6.0, 4.0, -2.4], rel=1e-5)
    assert given.logprobs.grad[0].tolist() == pytest.approx([0.0, 4.0, 0.0], rel=1e-5)
    assert outputs.metrics["dual_clip_fraction"][0].tolist() == [1.0, 0.0, 0.0]


def two_rows(given):
    """The first two tokens are a row, the third is another, and the last is not trained."""
    return replace(
        given,
        rows=torch.tensor([[0, 0, 1, 1]]),
        mask=torch.tensor([[True, True, True, False]]),
    )


def test_gspo_has_one_ratio_per_row_and_every_token_its_own_gradient():
    # Row one: sqrt(2 x 0.5) = 1; row two: 1.1, its untrained token of ratio 7 left out.
    given = two_rows(inputs([2.0, 0.5, 1.1, 7.0], [1.0, -3.0, 2.0, 0.0]))
    outputs = sequence_policy_loss(given, SYMMETRIC)
    outputs.loss[given.mask].sum().backward()
    assert outputs.metrics["ratio"][0, :3].tolist() == pytest.approx([1.0, 1.0, 1.1], rel=1e-5)
    assert outputs.loss[0, :3].tolist() == pytest.approx([-1.0, 3.0, -2.2], rel=1e-5)
    assert given.logprobs.grad[0].tolist() == pytest.approx([-1.0, 3.0, -2.2, 0.0], rel=1e-5)


def test_gspo_summed_by_sequence_has_the_gradient_of_the_sequence_ratio():
    ratios, advantage = [1.3, 0.9, 0.8], 2.0
    given = inputs(ratios, [advantage] * 3)
    sequence_policy_loss(
        given, replace(SYMMETRIC, clip_low=0.9, clip_high=9.0)
    ).loss.mean().backward()
    logprobs = given.logprobs.detach().clone().requires_grad_()
    (-advantage * (logprobs - given.old_logprobs).mean().exp()).backward()
    assert torch.allclose(given.logprobs.grad, logprobs.grad)


def test_cispo_clips_the_weight_and_keeps_the_gradient_of_clipped_tokens():
    settings = LossSettings(clip_low=1.0, clip_high=1.0)
    given = inputs([3.0, 0.1], [2.0, -1.0])
    outputs = clipped_weight_loss(given, settings)
    outputs.loss.sum().backward()
    assert given.logprobs.grad[0].tolist() == pytest.approx([-2.0 * 2.0, 0.1], rel=1e-5)
    assert outputs.metrics["clip_fraction"][0].tolist() == [1.0, 0.0]


def test_a_plain_policy_gradient_looks_at_no_ratio():
    given = inputs([3.0, 0.1], [2.0, -1.0])
    policy_gradient_loss(given, SYMMETRIC).loss.sum().backward()
    assert given.logprobs.grad[0].tolist() == pytest.approx([-2.0, 1.0])


@pytest.mark.parametrize(
    "loss",
    [clipped_policy_loss, sequence_policy_loss, clipped_weight_loss, policy_gradient_loss],
)
def test_all_losses_of_one_update_have_the_policy_gradient_where_nothing_has_moved(loss):
    given = inputs([1.0, 1.0], [2.0, -1.0])
    loss(given, SYMMETRIC).loss.sum().backward()
    assert given.logprobs.grad[0].tolist() == pytest.approx([-2.0, 1.0], rel=1e-5)


@pytest.mark.parametrize(
    "loss",
    [clipped_policy_loss, sequence_policy_loss, clipped_weight_loss, policy_gradient_loss],
)
def test_the_entropy_bonus_has_the_gradient_of_the_entropy(loss):
    # The stand-in for an entropy is -log p, whose gradient is -1.
    given = inputs([1.0], [0.0])
    loss(given, replace(SYMMETRIC, entropy_coefficient=0.25)).loss.sum().backward()
    assert given.logprobs.grad.item() == pytest.approx(0.25)


@pytest.mark.parametrize(("estimator", "slope"), [("k2", math.log(2.0)), ("k3", 0.5)])
def test_the_term_of_every_estimator_pulls_towards_the_reference(estimator, slope):
    settings = replace(SYMMETRIC, kl_coefficient=1.0, kl_estimator=estimator)
    given = inputs([1.0], [0.0], reference_ratios=[2.0])
    clipped_policy_loss(given, settings).loss.sum().backward()
    assert given.logprobs.grad.item() == pytest.approx(slope, rel=1e-5)


def test_a_masked_weight_silences_its_token_in_every_loss():
    settings = LossSettings(
        clip_low=0.5,
        clip_high=0.5,
        correction=CORRECTIONS["decoupled"],
        weights=WeightRules(max_weight=2.0, min_weight=0.5, on_larger="mask"),
    )
    given = inputs([1.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    behaviour = given.old_logprobs - torch.tensor([[3.0, 1.5, 0.25]]).log()
    given = replace(given, behaviour_logprobs=behaviour)
    for loss in (clipped_policy_loss, clipped_weight_loss, policy_gradient_loss):
        given.logprobs.grad = None
        outputs = loss(given, settings)
        outputs.loss.sum().backward()
        assert given.logprobs.grad[0].tolist() == pytest.approx([0.0, -1.5, 0.0], rel=1e-5)
        assert outputs.metrics["behaviour_weight_bounded"][0].tolist() == [1.0, 0.0, 1.0]
        squares = outputs.metrics["behaviour_weight_square"][0].tolist()
        assert squares == pytest.approx([0.0, 2.25, 0.0], rel=1e-5)


def test_the_clipped_loss_is_that_of_rlax():
    path = Path(__file__).parent / "golden" / "rlax.json"
    found = json.loads(path.read_text())
    ratios = [math.exp(value) for value in found["inputs"]["log_ratios"]]
    clip = found["constants"]["clip"]
    settings = LossSettings(clip_low=clip, clip_high=clip)
    outputs = clipped_policy_loss(inputs(ratios, found["inputs"]["advantages"]), settings)
    assert outputs.loss.mean().item() == pytest.approx(found["outputs"]["clipped_loss"], abs=1e-5)
