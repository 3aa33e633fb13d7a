"""The loss of a reward model, number for number, and that it is learned by."""

import json
import math
from pathlib import Path

import pytest
import torch
from earl_trainer.experience.packing import pack_fewest_first
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.preference.lines import Line, pair_columns
from earl_trainer.rewards.bradley_terry import BradleyTerryObjective, bradley_terry
from earl_trainer.rewards.model import make_reward_model, score_contexts


def test_the_loss_is_that_of_the_formula():
    chosen, rejected = torch.tensor([1.0, -0.5, 0.0]), torch.tensor([0.0, 0.5, 0.0])
    found = bradley_terry(chosen, rejected, margin=0.25, centring=0.01)
    expected = [
        math.log1p(math.exp(-0.75)) + 0.01,
        math.log1p(math.exp(1.25)),
        math.log1p(math.exp(0.25)),
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-6)
    far = bradley_terry(torch.tensor([-1e4]), torch.tensor([1e4]))
    assert far.item() == 2e4


def test_the_loss_and_its_gradients_are_those_of_trl():
    golden = json.loads((Path(__file__).parent / "golden" / "trl.json").read_text())
    inputs, expected = golden["inputs"], golden["outputs"]
    chosen, rejected = (
        torch.tensor(inputs[side], requires_grad=True) for side in ("chosen", "rejected")
    )
    losses = bradley_terry(chosen, rejected, **golden["constants"])
    losses.sum().backward()
    assert losses.tolist() == pytest.approx(expected["loss"], rel=1e-5)
    assert chosen.grad.tolist() == pytest.approx(expected["chosen_gradient"], rel=1e-5)
    assert rejected.grad.tolist() == pytest.approx(expected["rejected_gradient"], rel=1e-5)


def line(*token_ids):
    trained = (False, *(True for _ in token_ids[1:]))
    return Line(token_ids=token_ids, trained=trained, num_prompt=1)


def some_pairs(num, *, seed):
    """Whoever says more 7s is preferred; lengths differ."""
    rng = torch.Generator().manual_seed(seed)
    pairs = []
    while len(pairs) < num:
        lengths = torch.randint(3, 7, (2,), generator=rng).tolist()
        sides = [torch.randint(5, 9, (length,), generator=rng).tolist() for length in lengths]
        counts = [side.count(7) for side in sides]
        if counts[0] != counts[1]:
            better, worse = sides if counts[0] > counts[1] else sides[::-1]
            pairs.append((line(1, *better), line(1, *worse)))
    return pairs


def make_learner(model, *, max_tokens=4096, margin=0.0, centring=0.01):
    return Learner(
        model,
        MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0),
        BradleyTerryObjective(margin=margin, centring=centring),
        UpdateSettings(
            max_microbatch_tokens=max_tokens, max_grad_norm=1.0, packing=pack_fewest_first
        ),
    )


def rewards_of(model, pairs):
    sides = [[list(side[which].token_ids) for side in pairs] for which in (0, 1)]
    return [torch.tensor(score_contexts(model, each, max_tokens=4096)) for each in sides]


def test_a_mini_batch_has_the_mean_loss_of_its_pairs_in_any_micro_batches(make_llama):
    model = make_reward_model(make_llama())
    with torch.no_grad():
        model.score.weight.fill_(0.3)
    pairs = some_pairs(6, seed=3)
    chosen, rejected = rewards_of(model, pairs)
    expected = bradley_terry(chosen, rejected, margin=0.5, centring=0.1).mean().item()
    ahead = (chosen > rejected).float().mean().item()
    for max_tokens in (4096, 20):
        learner = make_learner(model, max_tokens=max_tokens, margin=0.5, centring=0.1)
        found = learner.accumulate(pair_columns(pairs))
        assert found["loss"] == pytest.approx(expected, abs=1e-5)
        assert found["accuracy"] == pytest.approx(ahead, abs=1e-6)
        assert found["margin"] == pytest.approx((chosen - rejected).mean().item(), abs=1e-5)


def test_what_pairs_prefer_is_learned_and_holds_for_others(make_llama):
    model = make_reward_model(make_llama())
    learner = make_learner(model)
    num = 32

    def learn(seed):
        pairs = pair_columns(some_pairs(num, seed=seed))
        return learner.update(pairs, [torch.arange(num)], lr=1e-2)

    assert learn(0)["accuracy"] == pytest.approx(0.5)  # Nothing is told apart yet.
    for step in range(1, 25):
        learn(step)
    chosen, rejected = rewards_of(model, some_pairs(200, seed=1000))
    assert (chosen > rejected).float().mean() > 0.85
    assert abs((chosen + rejected).mean()) < 2.0
