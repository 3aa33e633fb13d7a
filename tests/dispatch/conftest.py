"""Sizes of rows for the tests of the dispatcher."""

import pytest
from earl_dispatch import RowSizes


@pytest.fixture
def weigh():
    """Make the sizes of rows that weigh so many bytes each."""

    def make(row_bytes):
        return RowSizes(
            lengths=tuple(row_bytes),
            turns=(0,) * len(row_bytes),
            token_bytes=1,
            num_bit_columns=0,
            turn_bytes=0,
            value_bytes=0,
        )

    return make
