"""What rows weigh on the wire."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from earl_dispatch.columns import Columns, Schema

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSizes:
    """Tokens and bytes of every row, known to all ranks before anything is sent.

    Lengths are part of the plan, so they do not travel; boolean columns take a bit per token,
    rounded up to bytes for each piece of a row.

    Example:
        >>> schema = Schema(per_token=(("ids", torch.int32), ("mask", torch.bool)), per_row=())
        >>> sizes = RowSizes.of(schema, [3, 9])
        >>> sizes.row_bytes(0), sizes.row_bytes(1)
        (13, 38)
    """

    lengths: tuple[int, ...]
    """Tokens of each row."""
    turns: tuple[int, ...]
    """Turns of each row."""
    token_bytes: int
    """Bytes of one token in all columns that are not boolean."""
    num_bit_columns: int
    """Boolean per-token columns."""
    turn_bytes: int
    """Bytes of one turn in all per-turn columns."""
    value_bytes: int
    """Bytes of a row's values in all per-row columns."""

    def __post_init__(self) -> None:
        if len(self.turns) != len(self.lengths):
            raise ValueError(
                f"lengths and turns cover the same rows, got {len(self.lengths)} and "
                f"{len(self.turns)}"
            )
        if min(self.lengths, default=0) < 0 or min(self.turns, default=0) < 0:
            raise ValueError(
                f"lengths and turns must be >= 0, got {min(self.lengths)} and {min(self.turns)}"
            )

    @classmethod
    def of(
        cls, schema: Schema, lengths: Sequence[int], turns: Sequence[int] | None = None
    ) -> "RowSizes":
        """Weigh rows of a schema.

        Args:
            schema: Of the columns.
            lengths: Tokens of each row.
            turns: Turns of each row; none by default.
        """
        bits = [dtype for _, dtype in schema.per_token if dtype == torch.bool]
        return cls(
            lengths=tuple(lengths),
            turns=(0,) * len(lengths) if turns is None else tuple(turns),
            token_bytes=sum(dtype.itemsize for _, dtype in schema.per_token) - len(bits),
            num_bit_columns=len(bits),
            turn_bytes=sum(dtype.itemsize for _, dtype in schema.per_turn),
            value_bytes=sum(dtype.itemsize for _, dtype in schema.per_row),
        )

    @classmethod
    def of_columns(cls, columns: Columns) -> "RowSizes":
        """Weigh rows that are all here."""
        turns = columns.turn_counts()
        return cls.of(columns.schema(), columns.lengths.tolist(), turns.tolist())

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return len(self.lengths)

    def piece_bytes(self, num_tokens: int) -> int:
        """Return the bytes of so many consecutive tokens of one row."""
        return num_tokens * self.token_bytes + self.num_bit_columns * -(
            -num_tokens // BITS_PER_BYTE
        )

    def values_bytes(self, row: int) -> int:
        """Return the bytes of a row's own values and of its turns'."""
        return self.value_bytes + self.turns[row] * self.turn_bytes

    def row_bytes(self, row: int) -> int:
        """Return the bytes of a whole row."""
        return self.piece_bytes(self.lengths[row]) + self.values_bytes(row)

    def all_row_bytes(self) -> list[int]:
        """Return the bytes of every row, faster than one by one."""
        return [
            num_tokens * self.token_bytes
            + self.num_bit_columns * -(-num_tokens // BITS_PER_BYTE)
            + self.value_bytes
            + num_turns * self.turn_bytes
            for num_tokens, num_turns in zip(self.lengths, self.turns, strict=True)
        ]
