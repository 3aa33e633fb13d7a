import math

import pytest
import torch
from earl_trainer.algorithms.importance import (
    LEVELS,
    LogRatios,
    WeightRules,
    effective_share,
    unbounded_weights,
)

# Row one has weights 2 and 8, and a token that is not trained; row two has 1/4.
RATIOS = LogRatios(
    values=torch.tensor([2.0, 8.0, 1.0, 0.25]).log(),
    rows=torch.tensor([0, 0, 0, 1]),
    mask=torch.tensor([True, True, False, True]),
)


@pytest.mark.parametrize(
    ("level", "weights"),
    [
        ("token", [2.0, 8.0, 1.0, 0.25]),
        ("sequence", [16.0, 16.0, 16.0, 0.25]),
        ("geometric", [4.0, 4.0, 4.0, 0.25]),
    ],
)
def test_a_weight_is_a_tokens_own_or_its_rows(level, weights):
    assert unbounded_weights(RATIOS, level).tolist() == pytest.approx(weights, rel=1e-5)


def test_larger_weights_are_capped_and_smaller_ones_stay():
    rules = WeightRules(max_weight=4.0)
    assert rules.bound(unbounded_weights(RATIOS, "token")).tolist() == pytest.approx([
        2.0,
        4.0,
        1.0,
        0.25,
    ])


def test_weights_outside_are_masked_on_both_sides():
    rules = WeightRules(max_weight=4.0, min_weight=0.5, on_larger="mask")
    assert rules.bound(unbounded_weights(RATIOS, "token")).tolist() == pytest.approx([
        2.0,
        0.0,
        1.0,
        0.0,
    ])


def test_a_sequence_that_leaves_the_bounds_is_masked_as_a_whole():
    rules = WeightRules(level="sequence", max_weight=10.0, on_larger="mask")
    assert rules.bound(unbounded_weights(RATIOS, "sequence")).tolist() == pytest.approx([
        0.0,
        0.0,
        0.0,
        0.25,
    ])


@pytest.mark.parametrize("level", LEVELS)
def test_weights_are_finite_however_far_policies_are_apart(level):
    ratios = LogRatios(
        values=torch.full((400,), 20.0),
        rows=torch.zeros(400, dtype=torch.int64),
        mask=torch.ones(400, dtype=torch.bool),
    )
    assert unbounded_weights(ratios, level).max().item() == pytest.approx(math.exp(20.0), rel=1e-4)


@pytest.mark.parametrize(
    ("weights", "share"), [([1.0] * 4, 1.0), ([0.0, 0.0, 5.0, 0.0], 0.25), ([0.0], 0.0)]
)
def test_the_effective_share_is_one_for_equal_weights_and_one_nth_for_a_single_one(weights, share):
    squares = sum(weight * weight for weight in weights)
    assert effective_share(sum(weights), squares, float(len(weights))) == share
