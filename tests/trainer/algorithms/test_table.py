from dataclasses import replace

import pytest
import torch
from earl_trainer.algorithms.losses import LossInputs, LossSettings
from earl_trainer.algorithms.table import ALGORITHMS

SETTINGS = LossSettings(clip_low=0.2, clip_high=0.2, kl_coefficient=0.0)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_compares_within_groups_exactly_if_it_says_so(name):
    algorithm = ALGORITHMS[name]
    advantages = algorithm.advantages(torch.tensor([1.0, -1.0]), torch.tensor([0, 1]))
    assert bool((advantages == 0.0).all()) is algorithm.needs_groups


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_loss_depends_on_the_old_logprobs_exactly_if_its_algorithm_says_so(name):
    algorithm = ALGORITHMS[name]
    given = LossInputs(
        logprobs=torch.tensor([[-1.0]]),
        old_logprobs=torch.tensor([[-1.0]]),
        behaviour_logprobs=torch.tensor([[-1.0]]),
        staleness=torch.zeros(1, 1),
        reference_logprobs=torch.tensor([[-1.0]]),
        advantages=torch.tensor([[1.0]]),
        mask=torch.ones(1, 1, dtype=torch.bool),
    )
    moved = replace(given, old_logprobs=torch.tensor([[-1.1]]))
    differs = algorithm.loss(given, SETTINGS).loss != algorithm.loss(moved, SETTINGS).loss
    assert bool(differs) is algorithm.needs_old_logprobs
