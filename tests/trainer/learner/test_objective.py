"""Rows that an objective compares share a pass, whatever the size of passes."""

from dataclasses import dataclass, field

import pytest
import torch
from earl_dispatch import Columns
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.objective import WEIGHTS, Terms, single_rows
from earl_trainer.learner.optimizer import MasterAdamW

# Two rows of each pair stand apart.
PAIRS = [[0, 3], [1, 4], [2, 5]]
LENGTHS = [4, 2, 3, 3, 5, 2]


@dataclass
class ProductOfPairs:
    """A loss that no sum over rows gives: of each pair, the product of what its rows say."""

    seen: list = field(default_factory=list)

    def units(self, minibatch):
        return PAIRS

    def weigh(self, minibatch):
        weights = torch.ones(minibatch.num_tokens)
        return weights, torch.tensor(float(len(PAIRS)))

    def loss(self, model, part):
        self.seen.append(part.per_row["number"].tolist())
        parameter = next(model.parameters()).flatten()[0]
        numbers = part.per_row["number"].reshape(-1, 2).float() + 1.0
        share = float(part.per_token[WEIGHTS][0])
        return Terms(loss=numbers.prod(-1).sum() * parameter * share, metrics={"share": share})


def gradient_with(model, max_microbatch_tokens):
    model.zero_grad()
    objective = ProductOfPairs()
    learner = Learner(
        model,
        MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0),
        objective,
        UpdateSettings(max_microbatch_tokens=max_microbatch_tokens, max_grad_norm=1.0),
    )
    metrics = learner.accumulate(
        Columns(
            lengths=torch.tensor(LENGTHS),
            per_token={"token_ids": torch.zeros(sum(LENGTHS), dtype=torch.int32)},
            per_row={"number": torch.arange(6)},
        )
    )
    gradient = float(next(model.parameters()).grad.flatten()[0])
    return gradient, metrics["share"], objective.seen


def test_rows_of_a_unit_share_a_pass_however_small_passes_are(make_llama):
    model = make_llama()

    together, _, one_pass = gradient_with(model, max_microbatch_tokens=100)
    apart, num_pairs_thirds, passes = gradient_with(model, max_microbatch_tokens=7)

    assert len(one_pass) == 1
    assert sorted(passes) == PAIRS
    assert together == pytest.approx(apart) == pytest.approx((1 * 4 + 2 * 5 + 3 * 6) / 3)
    assert num_pairs_thirds == pytest.approx(1.0)


def test_a_unit_longer_than_a_pass_is_refused_with_its_length(make_llama):
    with pytest.raises(ValueError, match="7"):
        gradient_with(make_llama(), max_microbatch_tokens=6)


def test_rows_that_nothing_compares_are_units_by_themselves():
    rows = Columns(lengths=torch.tensor([2, 1]), per_token={"x": torch.zeros(3)}, per_row={})
    assert single_rows(rows) == [[0], [1]]
