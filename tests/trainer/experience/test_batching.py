import pytest
import torch
from earl_trainer.experience.batching import pad, padding_mask, plan_micro_batches
from hypothesis import given, settings
from hypothesis import strategies as st

lengths_of_rows = st.lists(st.integers(1, 12), min_size=1, max_size=20)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(lengths=lengths_of_rows, max_tokens=st.integers(1, 60))
def test_every_row_is_in_one_batch_and_padded_batches_fit_the_budget(lengths, max_tokens):
    batches = plan_micro_batches(lengths, max_tokens=max_tokens)
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    for rows in batches:
        padded_tokens = len(rows) * max(lengths[row] for row in rows)
        assert padded_tokens <= max_tokens or len(rows) == 1


def test_rows_of_similar_length_share_a_batch():
    # Longest first: 3 x 6 fits 18, then 5 x 2 fits; a batch of 6, 2 and 6 would waste four tokens.
    assert plan_micro_batches([2, 6, 2, 6, 6, 2], max_tokens=18) == [[1, 3, 4], [0, 2, 5]]


def test_a_row_beyond_the_budget_goes_alone():
    assert plan_micro_batches([4, 40, 4], max_tokens=8) == [[1], [0, 2]]


@settings(derandomize=True, max_examples=60, deadline=None)
@given(lengths=lengths_of_rows)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_padding_puts_zeros_on_the_right_and_is_undone_by_the_mask(lengths, dtype):
    # No value is 0, so a padded 0 is told from a value.
    values = torch.arange(1, sum(lengths) + 1).to(dtype)
    present = padding_mask(torch.tensor(lengths))
    padded = pad(values, present)
    assert padded.dtype == dtype
    assert torch.equal(padded[present], values)
    start = 0
    for row, length in enumerate(lengths):
        assert torch.equal(padded[row, :length], values[start : start + length])
        assert not padded[row, length:].any()
        start += length
