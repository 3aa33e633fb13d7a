import pytest
import torch
from earl_dispatch import RowSizes, Schema

SCHEMA = Schema(
    per_token=(("ids", torch.int32), ("logp", torch.bfloat16), ("mask", torch.bool)),
    per_row=(("advantage", torch.float32),),
    per_turn=(("reward", torch.float32),),
)


def test_a_row_weighs_its_tokens_bits_turns_and_values():
    sizes = RowSizes.of(SCHEMA, [9, 0], [3, 0])
    assert sizes.row_bytes(0) == 9 * 6 + 2 + 3 * 4 + 4
    assert sizes.row_bytes(1) == 4
    assert sizes.all_row_bytes() == [sizes.row_bytes(0), sizes.row_bytes(1)]
    assert sizes.piece_bytes(8) == 8 * 6 + 1


def test_counts_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="cover the same rows, got 2 and 1"):
        RowSizes.of(SCHEMA, [1, 2], [1])
    with pytest.raises(ValueError, match="must be >= 0, got -1 and 0"):
        RowSizes.of(SCHEMA, [-1])
