import pytest
import torch
from earl_trainer.algorithms.aggregation import (
    AGGREGATIONS,
    find_aggregation,
    prompt_mean,
    sequence_mean,
    sequence_sum,
    sequence_sum_over,
    token_mean,
)
from hypothesis import given, settings
from hypothesis import strategies as st

# Rows of 3, 2 and 4 tokens, of which 2, 0 and 1 are trained.
LENGTHS = torch.tensor([3, 2, 4])
MASK = torch.tensor([False, True, True, False, False, False, False, True, False])

masks = st.lists(st.lists(st.booleans(), min_size=1, max_size=6), min_size=1, max_size=6)


def flat(rows):
    return torch.tensor([value for row in rows for value in row], dtype=torch.bool)


def facts_of(rows):
    """Every row is a group by itself."""
    return {"group_tokens": torch.tensor([float(sum(row)) for row in rows])}


def weights_of(aggregate, mask, lengths, facts=None):
    weights, total = aggregate(mask, lengths, facts or {})
    return weights / torch.where(total > 0, total, 1.0)


def aggregated(name, rows):
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    return find_aggregation(name, max_tokens=10)(flat(rows), lengths, facts_of(rows))


def test_token_mean_weighs_every_trained_token_alike():
    expected = torch.tensor([0, 1, 1, 0, 0, 0, 0, 1, 0]) / 3
    assert torch.allclose(weights_of(token_mean, MASK, LENGTHS), expected)


def test_sequence_mean_weighs_every_row_with_a_trained_token_alike():
    expected = torch.tensor([0, 1 / 4, 1 / 4, 0, 0, 0, 0, 1 / 2, 0])
    assert torch.allclose(weights_of(sequence_mean, MASK, LENGTHS), expected)


def test_sequence_sums_grow_with_the_length():
    expected = torch.tensor([0, 1, 1, 0, 0, 0, 0, 1, 0]) / 2
    assert torch.allclose(weights_of(sequence_sum, MASK, LENGTHS), expected)
    assert torch.allclose(weights_of(sequence_sum_over(5), MASK, LENGTHS), expected / 5)


def test_prompt_mean_weighs_groups_alike_and_their_tokens():
    # Rows one and two are a group of 2 trained tokens, row three is one of 4, of which 1 is here.
    facts = {"group_tokens": torch.tensor([2.0, 2.0, 4.0])}
    weights, total = prompt_mean(MASK, LENGTHS, facts)
    assert weights.tolist() == [0, 1 / 2, 1 / 2, 0, 0, 0, 0, 1 / 4, 0]
    assert total == 1.25


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rows=masks)
@pytest.mark.parametrize("name", ["token-mean", "sequence-mean", "prompt-mean"])
def test_weights_of_means_are_zero_at_masked_tokens_and_sum_to_one(name, rows):
    mask = flat(rows)
    weights, total = aggregated(name, rows)
    weights = weights / total.clamp(min=1e-9)
    assert not weights[~mask].any()
    assert (weights[mask] > 0).all()
    assert weights.sum().item() == pytest.approx(1.0 if mask.any() else 0.0, abs=1e-6)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rows=masks, width=st.integers(1, 9))
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_a_fully_masked_row_changes_no_weight(name, rows, width):
    alone, total = aggregated(name, rows)
    joined, joined_total = aggregated(name, [*rows, [False] * width])
    assert torch.equal(joined[: len(alone)], alone)
    assert not joined[len(alone) :].any()
    assert joined_total.item() == pytest.approx(total.item())


@settings(derandomize=True, max_examples=60, deadline=None)
@given(rows=masks, cut=st.integers(0, 6))
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_parts_have_the_weights_of_the_whole_and_their_totals_add_up(name, rows, cut):
    parts = [aggregated(name, part) for part in (rows[:cut], rows[cut:])]
    weights, total = aggregated(name, rows)
    assert torch.equal(torch.cat([part for part, _ in parts]), weights)
    assert sum(part_total for _, part_total in parts).item() == pytest.approx(total.item())
