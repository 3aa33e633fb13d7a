"""Losses, weights and advantages, number for number those of trl, or by how much they differ."""

import json
from pathlib import Path
from statistics import pstdev, stdev

import pytest
import torch
from earl_trainer.algorithms.advantages import (
    Scores,
    divide_by_group_std,
    group_mean,
    leave_one_out,
)
from earl_trainer.algorithms.aggregation import find_aggregation
from earl_trainer.algorithms.importance import LogRatios, WeightRules, unbounded_weights
from earl_trainer.algorithms.kl import k1
from earl_trainer.algorithms.losses import (
    LossInputs,
    LossSettings,
    clipped_policy_loss,
    clipped_weight_loss,
    sequence_policy_loss,
)
from earl_trainer.algorithms.normalisation import whiten
from earl_trainer.algorithms.off_policy import CORRECTIONS
from earl_trainer.algorithms.rows import sum_over_row
from earl_trainer.algorithms.shaping import RewardShaping

GOLDEN = json.loads((Path(__file__).parent / "golden" / "trl.json").read_text())
CONSTANTS, INPUTS, OUTPUTS = (GOLDEN[name] for name in ("constants", "inputs", "outputs"))
CLIP, MAX_WEIGHT = CONSTANTS["clip"], CONSTANTS["max_weight"]
LENGTHS = torch.tensor(INPUTS["lengths"])
ROWS = torch.arange(len(LENGTHS)).repeat_interleave(LENGTHS)
MASK = torch.tensor(INPUTS["mask"]).bool()
ALL = torch.ones_like(MASK)
GROUPS = torch.arange(len(LENGTHS)) // 4
SCORED = torch.tensor([reward is not None for reward in INPUTS["rewards"]])
ADDED = 1e-4
"""What trl adds to a standard deviation before it divides by it."""


def column(name, mask=MASK):
    return torch.where(mask, torch.tensor(INPUTS[name]), 0.0)


def loss_inputs(*, mask=MASK, old="old_logprobs"):
    return LossInputs(
        logprobs=column("logprobs", mask).requires_grad_(),
        entropy=column("entropies", mask),
        old_logprobs=column(old, mask),
        behaviour_logprobs=column("behaviour_logprobs", mask),
        staleness=torch.zeros(len(ROWS)),
        reference_logprobs=column("reference_logprobs", mask),
        advantages=torch.where(mask, torch.tensor(INPUTS["advantages"])[ROWS], 0.0),
        rows=ROWS,
        mask=mask,
    )


def loss_and_gradient(function, aggregation, given, settings):
    aggregate = find_aggregation(aggregation, max_tokens=CONSTANTS["max_tokens"])
    weights, total = aggregate(given.mask, LENGTHS, {})
    loss = (weights * function(given, settings).loss).sum() / total
    (gradient,) = torch.autograd.grad(loss, given.logprobs)
    return loss.item(), gradient


def scores(rewards=None):
    """Of the rows that have a reward: what could not be scored is no episode of the step."""
    if rewards is None:
        rewards = [reward for reward in INPUTS["rewards"] if reward is not None]
    return Scores(
        rewards=torch.tensor(rewards),
        groups=GROUPS[SCORED],
        seats=torch.zeros(len(rewards), dtype=torch.int64),
        greedy=torch.zeros(len(rewards), dtype=torch.bool),
        baselines=torch.zeros(1),
    )


def trl_advantages(advantages):
    """Those of the rows that were scored; trl gives the others 0."""
    assert all(value == 0.0 for value, kept in zip(advantages, SCORED, strict=True) if not kept)
    return pytest.approx(torch.tensor(advantages)[SCORED].tolist(), rel=1e-5, abs=1e-6)


def alone(values):
    return values


@pytest.mark.parametrize(
    ("name", "function", "aggregation", "constants"),
    [
        ("grpo", clipped_policy_loss, "sequence-mean", {}),
        ("bnpo", clipped_policy_loss, "token-mean", {}),
        ("dr_grpo", clipped_policy_loss, "sequence-sum-constant", {}),
        ("dapo", clipped_policy_loss, "token-mean", {"clip_high": CONSTANTS["clip_high"]}),
        # trl's epsilon is the bound itself, and there is none below.
        (
            "cispo",
            clipped_weight_loss,
            "token-mean",
            {"clip_low": 1.0, "clip_high": MAX_WEIGHT - 1.0},
        ),
        (
            "gspo",
            sequence_policy_loss,
            "sequence-mean",
            {"clip_low": CONSTANTS["gspo_clip"], "clip_high": CONSTANTS["gspo_clip"]},
        ),
        # trl's delta, which bounds the ratio, acts as a dual clip if it is above 1 + epsilon.
        ("two_sided", clipped_policy_loss, "token-mean", {"dual_clip": CONSTANTS["dual_clip"]}),
        ("kl", clipped_policy_loss, "token-mean", {"kl_coefficient": CONSTANTS["kl_coefficient"]}),
        (
            "entropy",
            clipped_policy_loss,
            "token-mean",
            {"entropy_coefficient": CONSTANTS["entropy_coefficient"]},
        ),
        (
            "engine",
            clipped_policy_loss,
            "token-mean",
            {
                "correction": CORRECTIONS["decoupled"],
                "weights": WeightRules(max_weight=MAX_WEIGHT),
            },
        ),
    ],
)
def test_policy_losses_and_their_gradients_are_those_of_trl(name, function, aggregation, constants):
    settings = LossSettings(**{"clip_low": CLIP, "clip_high": CLIP} | constants)
    loss, gradient = loss_and_gradient(function, aggregation, loss_inputs(), settings)
    # trl also divides by rows without a trained token.
    trained = len(ROWS[MASK].unique())
    assert trained < len(LENGTHS)
    share = 1.0 if aggregation == "token-mean" else trained / len(LENGTHS)
    expected = OUTPUTS["losses"][name]
    assert share * loss == pytest.approx(expected["loss"], abs=1e-6)
    assert (share * gradient).tolist() == pytest.approx(expected["gradient"], rel=1e-5, abs=1e-7)


def test_every_constant_of_the_losses_of_trl_acts():
    losses = OUTPUTS["losses"]
    assert len({each["loss"] for each in losses.values()}) == len(losses)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize(("on_larger", "mode"), [("cap", "truncate"), ("mask", "mask")])
def test_weights_of_what_an_engine_emitted_are_those_of_trl(level, on_larger, mode):
    rules = WeightRules(
        level=level,
        max_weight=MAX_WEIGHT,
        min_weight=CONSTANTS["min_weight"],
        on_larger=on_larger,
    )
    ratios = column("old_logprobs") - column("behaviour_logprobs")
    weights = rules.bound(unbounded_weights(LogRatios(values=ratios, rows=ROWS, mask=MASK), level))
    expected = torch.tensor(OUTPUTS["weights"][f"{level}_{mode}"])
    told = expected if level == "token" else expected[ROWS]
    assert weights.tolist() == pytest.approx(told.tolist(), rel=1e-5)


def test_advantages_that_nothing_scales_are_those_of_trl():
    assert group_mean(scores()).tolist() == trl_advantages(OUTPUTS["advantages"]["none"])


def test_advantages_over_the_std_of_their_group_are_those_of_trl_but_for_bessels_correction():
    given = scores()
    spreads = [given.rewards[given.groups == group].tolist() for group in given.groups]
    factors = [pstdev(each) / (stdev(each) + ADDED) for each in spreads]
    ours = divide_by_group_std(group_mean(given), given) * torch.tensor(factors)
    assert ours.tolist() == trl_advantages(OUTPUTS["advantages"]["group"])


def test_whitened_advantages_are_those_of_trl_but_for_whose_std_divides():
    # Of one token each, so that their mean is 0; trl divides by the std of the rewards themselves.
    given = scores()
    advantages = group_mean(given)
    factor = pstdev(advantages.tolist()) / (stdev(given.rewards.tolist()) + ADDED)
    ours = whiten(advantages, alone) * factor
    assert ours.tolist() == trl_advantages(OUTPUTS["advantages"]["batch"])


def test_advantages_that_leave_one_out_are_those_of_trl():
    assert leave_one_out(scores()).tolist() == trl_advantages(OUTPUTS["rloo_advantages"])


def test_whitened_advantages_that_leave_one_out_are_those_of_trl_but_for_bessels_correction():
    advantages = leave_one_out(scores())
    factor = pstdev(advantages.tolist()) / (stdev(advantages.tolist()) + ADDED)
    ours = whiten(advantages, alone) * factor
    assert ours.tolist() == trl_advantages(OUTPUTS["rloo_whitened"])


def test_trl_leaves_one_out_of_rewards_less_the_whole_penalty():
    divergence = sum_over_row(
        k1(column("old_logprobs", ALL), column("reference_logprobs", ALL)), ROWS
    )
    ends = LENGTHS.cumsum(0) - 1
    penalty = CONSTANTS["kl_coefficient"] * divergence[ends][SCORED]
    ours = leave_one_out(scores((scores().rewards - penalty).tolist()))
    assert ours.tolist() == trl_advantages(OUTPUTS["rloo_penalised"])


def test_summed_by_row_the_first_update_of_rloo_has_the_gradient_of_trls():
    # trl has one ratio per row, the product of its tokens': at 1 its gradient is their sum's.
    given = loss_inputs(mask=ALL, old="logprobs")
    settings = LossSettings(clip_low=CLIP, clip_high=CLIP)
    _, gradient = loss_and_gradient(clipped_policy_loss, "sequence-sum", given, settings)
    assert gradient.tolist() == pytest.approx(OUTPUTS["rloo_loss"]["gradient"], rel=1e-5, abs=1e-7)


def test_rows_of_one_token_have_the_loss_of_trls_rloo_wherever_they_have_moved():
    num_rows = len(LENGTHS)
    rows = torch.arange(num_rows)
    mask = torch.ones(num_rows, dtype=torch.bool)
    given = LossInputs(
        logprobs=torch.tensor(INPUTS["logprobs"][:num_rows]).requires_grad_(),
        entropy=torch.zeros(num_rows),
        old_logprobs=torch.tensor(INPUTS["old_logprobs"][:num_rows]),
        behaviour_logprobs=torch.zeros(num_rows),
        staleness=torch.zeros(num_rows),
        reference_logprobs=torch.zeros(num_rows),
        advantages=torch.tensor(INPUTS["advantages"]),
        rows=rows,
        mask=mask,
    )
    loss = clipped_policy_loss(given, LossSettings(clip_low=CLIP, clip_high=CLIP)).loss.mean()
    (gradient,) = torch.autograd.grad(loss, given.logprobs)
    expected = OUTPUTS["rloo_moved"]
    assert loss.item() == pytest.approx(expected["loss"], abs=1e-6)
    assert gradient.tolist() == pytest.approx(expected["gradient"], rel=1e-5, abs=1e-7)
    assert 0.0 in expected["gradient"], "some are clipped"
    assert sum(each != 0.0 for each in expected["gradient"]) > num_rows // 2


def test_the_punishment_of_long_contexts_is_trls_soft_overlong():
    shaping = RewardShaping(
        max_tokens=CONSTANTS["max_tokens"],
        overlong_share=CONSTANTS["overlong_tokens"] / CONSTANTS["max_tokens"],
    )
    ours = [shaping.shape(0.25, context_tokens=tokens) - 0.25 for tokens in INPUTS["contexts"]]
    assert ours == pytest.approx(OUTPUTS["overlong"], abs=1e-6)
    assert {0.0, -1.0} < set(OUTPUTS["overlong"])
