import torch
from earl_dispatch import Columns
from earl_dispatch.rows import in_row_order, pick


def numbered(rows: list[int]) -> Columns:
    """Row `r` has one token of value `r`."""
    return Columns(
        lengths=torch.ones(len(rows), dtype=torch.int64),
        per_token={"row": torch.tensor(rows, dtype=torch.int64)},
        per_row={},
    )


def test_pick_finds_rows_by_their_global_number():
    picked = pick(numbered([2, 5, 9]), [2, 5, 9], [9, 2])
    assert picked.per_token["row"].tolist() == [9, 2]


def test_pieces_are_joined_in_ascending_row_order():
    joined = in_row_order([([3, 7], numbered([3, 7])), ([], numbered([])), ([5], numbered([5]))])
    assert joined.per_token["row"].tolist() == [3, 5, 7]
