import pytest
import torch
from earl_dispatch import Columns, Schema
from earl_trainer.experience.by_pack import compute_by_pack

DOUBLED = Schema(per_token=(("doubled", torch.int64),), per_row=())


def columns_of(lengths):
    num_tokens = sum(lengths)
    return Columns(
        lengths=torch.tensor(lengths, dtype=torch.int64),
        per_token={"ids": torch.arange(num_tokens)},
        per_row={},
    )


def doubled(lengths, *, max_tokens):
    packs = []

    def compute(part):
        packs.append(part.lengths.tolist())
        return Columns(
            lengths=part.lengths, per_token={"doubled": 2 * part.per_token["ids"]}, per_row={}
        )

    columns = compute_by_pack(columns_of(lengths), compute, DOUBLED, max_tokens=max_tokens)
    return columns.per_token["doubled"].tolist(), packs


def test_what_is_computed_comes_back_in_the_order_of_the_rows():
    values, packs = doubled([2, 5, 3, 1], max_tokens=6)
    assert values == [2 * token for token in range(11)]
    assert len(packs) > 1
    assert all(sum(pack) <= 6 for pack in packs)


def test_no_rows_are_no_passes():
    assert doubled([], max_tokens=6) == ([], [])


def test_a_row_beyond_a_pack_is_refused():
    with pytest.raises(ValueError, match="6"):
        doubled([7], max_tokens=6)
