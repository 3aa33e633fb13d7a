import pytest
import torch
from earl_dispatch.adapters.padding import find_runs, pad, padding_mask, position_ids, unpad
from hypothesis import given
from hypothesis import strategies as st

WIDTH = 6
runs = st.lists(
    st.tuples(st.integers(0, WIDTH), st.integers(0, WIDTH)).filter(lambda run: sum(run) <= WIDTH),
    max_size=5,
)


def split(pairs: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2)
    return tensor[:, 0], tensor[:, 1]


@given(runs)
def test_what_is_padded_comes_back(pairs):
    starts, lengths = split(pairs)
    values = torch.arange(1, int(lengths.sum()) + 1)
    padded = pad(values, starts, lengths, width=WIDTH, fill=-7)
    assert padded.shape == (len(pairs), WIDTH)
    assert unpad(padded, starts, lengths).equal(values)
    for row, (start, length) in zip(padded.tolist(), pairs, strict=True):
        assert row[:start] == [-7] * start
        assert row[start + length :] == [-7] * (WIDTH - start - length)
        assert -7 not in row[start : start + length]


@given(runs)
def test_runs_are_found_in_their_mask(pairs):
    starts, lengths = split(pairs)
    mask = padding_mask(starts, lengths, width=WIDTH)
    found_starts, found_lengths = find_runs(mask.long())
    assert found_lengths.equal(lengths)
    assert found_starts.equal(starts.where(lengths > 0, 0))


def test_a_row_with_gaps_is_refused():
    with pytest.raises(ValueError, match="one run of ones, that of row 1 has gaps"):
        find_runs(torch.tensor([[0, 1, 1], [1, 0, 1]]))


def test_positions_count_tokens_and_stay_where_there_are_none():
    mask = torch.tensor([[0, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
    assert position_ids(mask).tolist() == [[0, 0, 0, 1, 1], [0, 1, 2, 3, 4], [0] * 5]
    assert find_runs(torch.ones(2, 0))[1].tolist() == [0, 0]
