"""Preference losses, number for number those of trl, or by how much they differ."""

import json
from pathlib import Path

import pytest
import torch
from earl_trainer.preference.losses import (
    Answer,
    PreferenceSettings,
    dpo,
    ipo,
    kto,
    kto_baseline,
    orpo,
    simpo,
)

GOLDEN = json.loads((Path(__file__).parent / "golden" / "trl.json").read_text())
CONSTANTS, INPUTS, OUTPUTS = (GOLDEN[name] for name in ("constants", "inputs", "outputs"))


def settings(*names):
    return PreferenceSettings(**{name: CONSTANTS[name] for name in ("beta", *names)})


def answers(*sides):
    """The answers of sides, one side after the other."""

    def column(name):
        return torch.tensor([float(each) for side in sides for each in INPUTS[f"{side}_{name}"]])

    return Answer(
        logprobs=column("logprobs").requires_grad_(),
        reference_logprobs=column("reference"),
        num_tokens=column("tokens"),
    )


def close(values):
    return pytest.approx(values, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "function", "constants"),
    [
        ("dpo", dpo, ()),
        ("cdpo", dpo, ("label_smoothing",)),
        ("ipo", ipo, ()),
        ("simpo", simpo, ("margin",)),
        # Of one pair behind a prompt of one token: else trl's likelihood also has the prompt's.
        ("orpo", orpo, ()),
    ],
)
def test_losses_of_pairs_and_their_gradients_are_those_of_trl(name, function, constants):
    chosen, rejected = answers("chosen"), answers("rejected")
    losses = function(chosen, rejected, settings(*constants)).loss
    losses.sum().backward()
    expected = OUTPUTS[name]
    assert losses.tolist() == close(expected["loss"])
    assert chosen.logprobs.grad.tolist() == close(expected["chosen_gradient"])
    assert rejected.logprobs.grad.tolist() == close(expected["rejected_gradient"])


def test_the_odds_of_orpo_are_those_of_trl_and_its_likelihood_is_that_of_each_answer():
    chosen, rejected = answers("chosen"), answers("rejected")
    losses = orpo(chosen, rejected, settings()).loss
    # trl takes off beta log sigma(log odds ratio), of a likelihood that is a mean over tokens.
    odds = losses + chosen.mean_logprobs
    odds.sum().backward()
    expected = OUTPUTS["odds_ratio"]
    assert (-odds).tolist() == close(expected["loss"])
    assert (-chosen.logprobs.grad).tolist() == close(expected["chosen_gradient"])
    assert (-rejected.logprobs.grad).tolist() == close(expected["rejected_gradient"])


def test_kto_and_its_baseline_are_those_of_trl():
    judged = answers("chosen", "rejected")
    mismatched = INPUTS["mismatched"]
    baseline = kto_baseline(sum(mismatched), len(mismatched))
    desirable = torch.arange(len(judged.logprobs)) < len(INPUTS["chosen_logprobs"])
    losses, _ = kto(
        judged,
        desirable,
        torch.full_like(judged.reference_logprobs, baseline),
        settings("desirable_weight", "undesirable_weight"),
    )
    losses.mean().backward()
    expected = OUTPUTS["kto"]
    assert baseline == close(expected["baseline"])
    assert losses.mean().item() == close(expected["loss"])
    assert judged.logprobs.grad.tolist() == close(expected["gradient"])
