import torch
from earl_trainer.algorithms.rows import mean_over_row, row_sums, sum_over_row

ROWS = torch.tensor([0, 0, 0, 1, 2, 2])
VALUES = torch.tensor([1.0, 0.0, 3.0, -1.0, 0.0, 0.0])


def test_every_token_hears_the_sum_of_its_row():
    assert sum_over_row(VALUES, ROWS).tolist() == [4.0, 4.0, 4.0, -1.0, 0.0, 0.0]


def test_a_row_without_a_token_has_the_sum_0():
    assert row_sums(VALUES, ROWS, 4).tolist() == [4.0, -1.0, 0.0, 0.0]


def test_a_mean_is_over_trained_tokens_and_nothing_without_any():
    mask = torch.tensor([True, False, True, True, False, False])
    assert mean_over_row(VALUES, ROWS, mask).tolist() == [2.0, 2.0, 2.0, -1.0, 0.0, 0.0]
