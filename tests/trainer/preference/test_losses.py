import math

import pytest
import torch
from earl_trainer.preference.losses import (
    PAIR_LOSSES,
    Answer,
    PreferenceSettings,
    dpo,
    ipo,
    kto,
    kto_baseline,
    orpo,
    simpo,
)
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

DPO = PreferenceSettings(beta=0.5)


def answer(logprob, reference=0.0, num_tokens=1):
    return Answer(
        logprobs=torch.tensor([logprob], dtype=torch.float32).requires_grad_(),
        reference_logprobs=torch.tensor([reference], dtype=torch.float32),
        num_tokens=torch.tensor([float(num_tokens)]),
    )


def sigmoid(x):
    return 1.0 / (1.0 + math.exp(-x))


def test_dpo_is_log_2_where_the_policy_is_its_reference():
    losses = dpo(answer(-7.0, -7.0), answer(-1.0, -1.0), DPO)
    assert losses.loss.item() == pytest.approx(math.log(2.0), rel=1e-6)
    assert losses.chosen_rewards.item() == losses.rejected_rewards.item() == 0.0


def test_dpo_and_its_gradient_equal_the_closed_form():
    chosen, rejected = answer(-2.0, -3.0), answer(-5.0, -4.5)
    losses = dpo(chosen, rejected, DPO)
    losses.loss.sum().backward()
    # h = 0.5 (1.0 - (-0.5)) = 0.75; dL/dh = -(1 - sigma(h)).
    assert losses.loss.item() == pytest.approx(-math.log(sigmoid(0.75)), rel=1e-6)
    assert chosen.logprobs.grad.item() == pytest.approx(-0.5 * (1 - sigmoid(0.75)), rel=1e-6)
    assert rejected.logprobs.grad.item() == pytest.approx(0.5 * (1 - sigmoid(0.75)), rel=1e-6)
    assert losses.chosen_rewards.item() == pytest.approx(0.5)
    assert losses.rejected_rewards.item() == pytest.approx(-0.25)


def test_conservative_dpo_is_least_where_the_preference_has_the_odds_of_the_labels():
    settings = PreferenceSettings(beta=1.0, label_smoothing=0.2)
    # sigma(h) = 0.8 at h = log 4: its derivative is 0 there.
    chosen = answer(math.log(4.0))
    losses = dpo(chosen, answer(0.0), settings)
    losses.loss.sum().backward()
    assert chosen.logprobs.grad.item() == pytest.approx(0.0, abs=1e-6)
    assert losses.loss.item() == pytest.approx(-0.8 * math.log(0.8) - 0.2 * math.log(0.2), rel=1e-6)


def test_ipo_compares_means_per_token_with_its_target():
    settings = PreferenceSettings(beta=0.25)
    # (-1 / 2) - (-3 / 3) = 0.5, and the target is 2.
    losses = ipo(answer(-3.0, -2.0, 2), answer(-7.0, -4.0, 3), settings)
    assert losses.loss.item() == pytest.approx(2.25, rel=1e-6)


def test_ipo_pulls_back_what_is_beyond_its_target():
    chosen = answer(5.0)
    ipo(chosen, answer(0.0), PreferenceSettings(beta=0.25)).loss.sum().backward()
    assert chosen.logprobs.grad.item() == pytest.approx(6.0, rel=1e-6)


def test_simpo_equals_the_closed_form_and_looks_at_no_reference():
    settings = PreferenceSettings(beta=2.0, margin=0.5)
    # 2 (-1 + 1.5) - 0.5 = 0.5.
    for reference in (0.0, -9.0):
        losses = simpo(answer(-2.0, reference, 2), answer(-6.0, reference, 4), settings)
        assert losses.loss.item() == pytest.approx(-math.log(sigmoid(0.5)), rel=1e-6)


def test_orpo_equals_the_closed_form():
    settings = PreferenceSettings(beta=0.3)
    # Mean probabilities 0.5 and 0.25: odds 1 and 1/3, their ratio 3, whose sigma(log .) is 3/4.
    chosen = answer(2 * math.log(0.5), num_tokens=2)
    rejected = answer(3 * math.log(0.25), num_tokens=3)
    losses = orpo(chosen, rejected, settings)
    assert losses.loss.item() == pytest.approx(math.log(2.0) - 0.3 * math.log(0.75), rel=1e-5)


def test_orpo_of_a_certain_answer_is_finite_with_finite_gradients():
    chosen, rejected = answer(0.0), answer(-1.0)
    losses = orpo(chosen, rejected, PreferenceSettings(beta=1.0))
    losses.loss.sum().backward()
    assert torch.isfinite(losses.loss).all()
    assert torch.isfinite(chosen.logprobs.grad).all()
    assert torch.isfinite(rejected.logprobs.grad).all()


@pytest.mark.parametrize("name", PAIR_LOSSES)
def test_empty_answers_have_finite_losses(name):
    losses = PAIR_LOSSES[name](answer(0.0, 0.0, 0), answer(0.0, 0.0, 0), DPO)
    losses.loss.sum().backward()
    assert torch.isfinite(losses.loss).all()


@pytest.mark.parametrize("name", PAIR_LOSSES)
@examples(derandomize=True, max_examples=60, deadline=None)
@given(better=st.floats(-20.0, -0.1), worse=st.floats(-20.0, -0.1))
def test_the_better_answer_is_never_pushed_down_below_the_target(name, better, worse):
    # IPO's target, 1 / (2 beta) = 50, is out of reach here.
    chosen, rejected = answer(better), answer(worse)
    PAIR_LOSSES[name](chosen, rejected, PreferenceSettings(beta=0.01)).loss.sum().backward()
    assert chosen.logprobs.grad.item() <= 0.0
    assert rejected.logprobs.grad.item() >= 0.0


def test_kto_equals_the_closed_form_of_good_and_of_bad_answers():
    settings = PreferenceSettings(beta=0.5, desirable_weight=1.5, undesirable_weight=2.0)
    answers = Answer(
        logprobs=torch.tensor([-1.0, -1.0]),
        reference_logprobs=torch.tensor([-3.0, -3.0]),
        num_tokens=torch.ones(2),
    )
    losses, rewards = kto(answers, torch.tensor([True, False]), torch.tensor([0.4, 0.4]), settings)
    # beta (h - z) = 0.5 (2 - 0.4) = 0.8.
    assert losses.tolist() == pytest.approx(
        [1.5 * (1 - sigmoid(0.8)), 2.0 * (1 - sigmoid(-0.8))], rel=1e-6
    )
    assert rewards.tolist() == [1.0, 1.0]


def test_kto_raises_good_answers_and_lowers_bad_ones():
    logprobs = torch.tensor([-1.0, -1.0], requires_grad=True)
    answers = Answer(logprobs=logprobs, reference_logprobs=torch.zeros(2), num_tokens=torch.ones(2))
    losses, _ = kto(answers, torch.tensor([True, False]), torch.zeros(2), DPO)
    losses.sum().backward()
    # Both: beta sigma(h)(1 - sigma(h)) at h = -0.5.
    slope = 0.5 * sigmoid(-0.5) * sigmoid(0.5)
    assert logprobs.grad.tolist() == pytest.approx([-slope, slope], rel=1e-6)


def test_the_baseline_is_a_mean_that_is_not_negative():
    assert kto_baseline(3.0, 4) == 0.75
    assert kto_baseline(-3.0, 4) == 0.0
