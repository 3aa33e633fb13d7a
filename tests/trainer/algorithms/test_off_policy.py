import math

import pytest
import torch
from earl_trainer.algorithms.importance import WeightRules
from earl_trainer.algorithms.losses import LossInputs, LossSettings, clipped_policy_loss
from earl_trainer.algorithms.off_policy import CORRECTIONS, Emitted


def emitted(*, now=(-1.0, -1.0), old=(-1.2, -0.5), behaviour=(-1.5, -2.5), staleness=(1.0, 3.0)):
    return Emitted(
        logprobs=torch.tensor(now),
        old_logprobs=torch.tensor(old),
        behaviour_logprobs=torch.tensor(behaviour),
        staleness=torch.tensor(staleness),
        rows=torch.zeros(2, dtype=torch.int64),
        mask=torch.ones(2, dtype=torch.bool),
    )


def apply(name, *, max_weight=100.0, on_larger="cap", **given):
    rules = WeightRules(max_weight=max_weight, on_larger=on_larger)
    return CORRECTIONS[name].apply(emitted(**given), rules)


def test_the_decoupled_weight_is_proximal_over_behaviour():
    centre = apply("decoupled")
    assert centre.logprobs.tolist() == pytest.approx([-1.2, -0.5])
    assert centre.weights.tolist() == pytest.approx([math.exp(0.3), math.exp(2.0)])


def test_naive_ppo_compares_with_whoever_emitted_and_none_with_the_newest():
    assert apply("naive").logprobs.tolist() == pytest.approx([-1.5, -2.5])
    assert apply("none").logprobs.tolist() == pytest.approx([-1.2, -0.5])
    for name in ("naive", "none"):
        assert apply(name).weights.tolist() == [1.0, 1.0]


def test_large_weights_are_capped_or_their_tokens_left_out():
    assert apply("decoupled", max_weight=5.0).weights.tolist() == pytest.approx([
        math.exp(0.3),
        5.0,
    ])
    masked = apply("decoupled", max_weight=5.0, on_larger="mask")
    assert masked.weights.tolist() == pytest.approx([math.exp(0.3), 0.0])


def test_the_loglinear_centre_lies_by_staleness_between_behaviour_and_the_present():
    centre = apply("loglinear")
    assert centre.logprobs.tolist() == pytest.approx([
        -1.5 + 1 / 2 * (-1.0 + 1.5),
        -2.5 + 3 / 4 * (-1.0 + 2.5),
    ])
    fresh = apply("loglinear", staleness=(0.0, 0.0))
    assert fresh.logprobs.tolist() == pytest.approx([-1.5, -2.5])
    assert fresh.weights.tolist() == [1.0, 1.0]


def inputs(name, *, ratio, behaviour_shift):
    """One token at `ratio` to the proximal policy, which is exp(shift) times the behaviour's."""
    old = torch.tensor([-1.0])
    given = LossInputs(
        logprobs=(old + math.log(ratio)).requires_grad_(),
        entropy=old,
        old_logprobs=old,
        behaviour_logprobs=old - behaviour_shift,
        staleness=torch.tensor([1.0]),
        reference_logprobs=old,
        advantages=torch.tensor([2.0]),
        rows=torch.tensor([0]),
        mask=torch.tensor([True]),
    )
    settings = LossSettings(
        clip_low=0.2, clip_high=0.2, kl_coefficient=0.0, correction=CORRECTIONS[name]
    )
    outputs = clipped_policy_loss(given, settings)
    outputs.loss.sum().backward()
    return outputs, given.logprobs.grad.item()


@pytest.mark.parametrize(("ratio", "clipped"), [(1.0, False), (1.1, False), (1.5, True)])
def test_the_decoupled_gradient_contains_the_factor_and_clips_by_the_proximal_ratio(ratio, clipped):
    outputs, gradient = inputs("decoupled", ratio=ratio, behaviour_shift=0.7)
    assert gradient == pytest.approx(0.0 if clipped else -2.0 * ratio * math.exp(0.7), rel=1e-5)
    assert outputs.metrics["clip_fraction"].item() == float(clipped)
    assert outputs.metrics["behaviour_weight"].item() == pytest.approx(math.exp(0.7), rel=1e-5)


def test_on_fresh_tokens_the_decoupled_loss_is_ppos():
    decoupled, gradient = inputs("decoupled", ratio=1.1, behaviour_shift=0.0)
    plain, plain_gradient = inputs("none", ratio=1.1, behaviour_shift=0.0)
    assert decoupled.loss.item() == plain.loss.item()
    assert gradient == plain_gradient


def test_naive_ppo_clips_what_older_weights_emitted():
    _, gradient = inputs("naive", ratio=1.0, behaviour_shift=0.7)
    assert gradient == 0.0


@pytest.mark.parametrize("name", CORRECTIONS)
def test_a_correction_looks_at_the_proximal_policy_exactly_if_it_says_so(name):
    differs = apply(name).logprobs.tolist() != apply(name, old=(-3.0, -3.0)).logprobs.tolist()
    assert differs is CORRECTIONS[name].needs_old_logprobs
