import math

import pytest
import torch
from earl_trainer.algorithms.normalisation import whiten


def alone(values):
    return values


def test_whitened_values_equal_the_sum_done_by_hand():
    # Mean 2, variance (4 + 0 + 0 + 4) / 4.
    values = whiten(torch.tensor([0.0, 2.0, 2.0, 4.0]), alone)
    assert values.tolist() == pytest.approx([-math.sqrt(2.0), 0.0, 0.0, math.sqrt(2.0)])


@pytest.mark.parametrize("values", [[0.35] * 7, [0.1 + 0.2, 0.3], [5.0], []])
def test_equal_values_and_none_give_exactly_zero(values):
    assert whiten(torch.tensor(values), alone).tolist() == [0.0] * len(values)


def test_workers_whiten_over_what_all_of_them_have():
    mine, theirs = [0.0, 2.0], [2.0, 4.0, 7.0]
    # What the other worker would tell in each exchange.
    mean = sum([*mine, *theirs]) / 5
    told = [[3.0, 13.0], [sum((value - mean) ** 2 for value in theirs)]]

    def with_theirs(values):
        return [own + other for own, other in zip(values, told.pop(0), strict=True)]

    together = whiten(torch.tensor([*mine, *theirs]), alone)
    assert torch.allclose(whiten(torch.tensor(mine), with_theirs), together[:2])
