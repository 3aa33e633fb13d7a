import pytest
import torch
from earl_trainer.algorithms.aggregation import AGGREGATIONS, sequence_mean, token_mean
from hypothesis import given, settings
from hypothesis import strategies as st

# Rows of 3, 2 and 4 tokens, of which 2, 0 and 1 are trained.
LENGTHS = torch.tensor([3, 2, 4])
MASK = torch.tensor([False, True, True, False, False, False, False, True, False])

masks = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=6)


def flat(rows):
    return torch.tensor([value for row in rows for value in row], dtype=torch.bool)


def weights_of(aggregate, mask, lengths):
    weights, total = aggregate(mask, lengths)
    return weights / total.clamp(min=1)


def test_token_mean_weighs_every_trained_token_alike():
    expected = torch.tensor([0, 1, 1, 0, 0, 0, 0, 1, 0]) / 3
    assert torch.allclose(weights_of(token_mean, MASK, LENGTHS), expected)


def test_sequence_mean_weighs_every_row_with_a_trained_token_alike():
    expected = torch.tensor([0, 1 / 4, 1 / 4, 0, 0, 0, 0, 1 / 2, 0])
    assert torch.allclose(weights_of(sequence_mean, MASK, LENGTHS), expected)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rows=masks)
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_weights_are_zero_at_masked_tokens_and_sum_to_one(name, rows):
    mask = flat(rows)
    weights = weights_of(AGGREGATIONS[name], mask, torch.tensor([len(row) for row in rows]))
    assert not weights[~mask].any()
    assert (weights[mask] > 0).all()
    assert weights.sum().item() == pytest.approx(1.0 if mask.any() else 0.0, abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rows=masks, width=st.integers(1, 9))
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_fully_masked_row_changes_no_weight(name, rows, width):
    lengths = [len(row) for row in rows]
    alone, total = AGGREGATIONS[name](flat(rows), torch.tensor(lengths))
    joined, joined_total = AGGREGATIONS[name](
        flat([*rows, [False] * width]), torch.tensor([*lengths, width])
    )
    assert torch.equal(joined[: len(alone)], alone)
    assert not joined[len(alone) :].any()
    assert joined_total == total


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rows=masks, cut=st.integers(0, 6))
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_parts_have_the_weights_of_the_whole_and_their_totals_add_up(name, rows, cut):
    parts = [
        AGGREGATIONS[name](flat(part), torch.tensor([len(row) for row in part], dtype=torch.int64))
        for part in (rows[:cut], rows[cut:])
    ]
    weights, total = AGGREGATIONS[name](flat(rows), torch.tensor([len(row) for row in rows]))
    assert torch.equal(torch.cat([part for part, _ in parts]), weights)
    assert sum(part_total for _, part_total in parts) == total
