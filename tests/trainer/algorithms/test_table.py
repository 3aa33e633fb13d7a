from dataclasses import replace

import pytest
import torch
from earl_trainer.algorithms.advantages import Scores
from earl_trainer.algorithms.aggregation import AGGREGATIONS
from earl_trainer.algorithms.losses import LossInputs, LossSettings
from earl_trainer.algorithms.table import ALGORITHMS, NORMALISATIONS
from earl_trainer.algorithms.trajectories import Discounts, Trajectories

SETTINGS = LossSettings(clip_low=0.2, clip_high=0.2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_compares_within_groups_exactly_if_it_says_so(name):
    algorithm = ALGORITHMS[name]

    scores = Scores(
        rewards=torch.tensor([1.0, -0.5]),
        groups=torch.tensor([0, 1]),
        seats=torch.tensor([0, 0]),
        greedy=torch.tensor([False, False]),
        baselines=torch.tensor([0.125]),
    )
    alone = algorithm.baseline(scores)
    assert bool((alone == 0.0).all()) is (algorithm.needs_groups or algorithm.needs_greedy)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_loss_depends_on_the_old_logprobs_exactly_if_its_algorithm_says_so(name):
    algorithm = ALGORITHMS[name]
    given = LossInputs(
        logprobs=torch.tensor([-1.0]),
        entropy=torch.tensor([1.0]),
        old_logprobs=torch.tensor([-1.0]),
        behaviour_logprobs=torch.tensor([-1.0]),
        staleness=torch.zeros(1),
        reference_logprobs=torch.tensor([-1.0]),
        advantages=torch.tensor([1.0]),
        rows=torch.tensor([0]),
        mask=torch.tensor([True]),
    )
    moved = replace(given, old_logprobs=torch.tensor([-1.1]))
    differs = algorithm.loss(given, SETTINGS).loss != algorithm.loss(moved, SETTINGS).loss
    assert bool(differs) is algorithm.needs_old_logprobs


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_looks_at_values_exactly_if_it_says_so_and_at_ratios_if_it_corrects(name):
    algorithm = ALGORITHMS[name]

    def advantages(*, value=0.0, log_ratio=0.0):
        steps = Trajectories(
            rewards=torch.tensor([[1.0]]),
            values=torch.tensor([[value]]),
            last_values=torch.tensor([0.0]),
            log_ratios=torch.tensor([[log_ratio]]),
            turns=torch.tensor([[0]]),
            mask=torch.tensor([[True]]),
        )
        return algorithm.along(steps, Discounts()).advantages.item()

    assert (advantages() != advantages(value=0.5)) is algorithm.needs_critic
    assert (advantages() != advantages(log_ratio=-0.5)) is algorithm.corrects_itself


@pytest.mark.parametrize("name", ALGORITHMS)
def test_what_an_algorithm_names_exists(name):
    algorithm = ALGORITHMS[name]
    assert algorithm.name == name
    assert algorithm.normalisation in NORMALISATIONS
    assert algorithm.aggregation in AGGREGATIONS


def test_dapo_alone_wants_groups_without_variance_replaced():
    assert [name for name in ALGORITHMS if ALGORITHMS[name].varied_group_rounds] == ["dapo"]
