"""Ragged columns: named tensors over rows of different lengths, without padding."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """Names and dtypes of columns, each kind sorted by name."""

    per_token: tuple[tuple[str, torch.dtype], ...]
    """(name, dtype) of the columns with one value per token."""
    per_row: tuple[tuple[str, torch.dtype], ...]
    """(name, dtype) of the columns with one value per row."""
    per_turn: tuple[tuple[str, torch.dtype], ...] = ()
    """(name, dtype) of the columns with one value per turn."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Columns:
    """Rows of tokens, stored column by column and end to end.

    Token `t` of row `r` stands at `offsets()[r] + t` of every per-token column; the turns of a row
    stand in the per-turn columns in the same way. What follows from these, such as attention masks
    and position ids, is not stored: whoever pads the rows builds it.

    Example:
        >>> columns = Columns(
        ...     lengths=torch.tensor([2, 1]),
        ...     per_token={"ids": torch.tensor([5, 6, 7])},
        ...     per_row={"reward": torch.tensor([1.0, -1.0])},
        ... )
        >>> columns.select([1]).per_token["ids"].tolist()
        [7]
    """

    lengths: Int64[Tensor, "rows"]
    """Tokens in each row; rows of no tokens are allowed."""
    per_token: Mapping[str, Tensor]
    """Columns of shape [sum(lengths)], of any dtype."""
    per_row: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Columns of shape [rows], of any dtype."""
    turns: Int64[Tensor, "rows"] | None = None
    """Turns in each row; None for rows without turns."""
    per_turn: Mapping[str, Tensor] = field(default_factory=dict[str, Tensor])
    """Columns of shape [sum(turns)], of any dtype."""

    def __post_init__(self) -> None:
        _check_counts("lengths", self.lengths)
        if self.turns is not None:
            _check_counts("turns", self.turns)
            self._check("turns", self.turns, self.num_rows, "one value per row")
        names = [*self.per_token, *self.per_turn, *self.per_row]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(
                    f"a column is per token, per turn or per row, {name!r} is given as two of them"
                )
        for name, column in self.per_token.items():
            self._check(name, column, self.num_tokens, "one value per token")
        for name, column in self.per_turn.items():
            self._check(name, column, int(self.turn_counts().sum()), "one value per turn")
        for name, column in self.per_row.items():
            self._check(name, column, self.num_rows, "one value per row")

    def _check(self, name: str, column: Tensor, size: int, rule: str) -> None:
        if column.shape != (size,):
            raise ValueError(
                f"column {name!r} needs {rule}: expected shape [{size}], got {list(column.shape)}"
            )
        if column.device != self.lengths.device:
            raise ValueError(
                f"columns share one device: {name!r} is on {column.device}, "
                f"lengths are on {self.lengths.device}"
            )

    @classmethod
    def empty(cls, schema: Schema, *, device: torch.device | str = "cpu") -> "Columns":
        """Return no rows of `schema`: what a rank passes that holds nothing yet."""
        return cls(
            lengths=torch.zeros(0, dtype=torch.int64, device=device),
            per_token={n: torch.empty(0, dtype=d, device=device) for n, d in schema.per_token},
            per_row={n: torch.empty(0, dtype=d, device=device) for n, d in schema.per_row},
            per_turn={n: torch.empty(0, dtype=d, device=device) for n, d in schema.per_turn},
        )

    @classmethod
    def concat(cls, parts: Sequence["Columns"]) -> "Columns":
        """Return the rows of all parts, one part after the other.

        Raises:
            ValueError: If there is no part, or two parts differ in schema.
        """
        if not parts:
            raise ValueError("concat needs at least 1 part, got 0")
        schema = parts[0].schema()
        for index, part in enumerate(parts):
            if part.schema() != schema:
                raise ValueError(
                    f"parts share one schema: part 0 has {schema}, part {index} has {part.schema()}"
                )
        return cls(
            lengths=torch.cat([part.lengths for part in parts]),
            per_token={
                name: torch.cat([part.per_token[name] for part in parts])
                for name, _ in schema.per_token
            },
            per_row={
                name: torch.cat([part.per_row[name] for part in parts])
                for name, _ in schema.per_row
            },
            turns=(
                None
                if all(part.turns is None for part in parts)
                else torch.cat([part.turn_counts() for part in parts])
            ),
            per_turn={
                name: torch.cat([part.per_turn[name] for part in parts])
                for name, _ in schema.per_turn
            },
        )

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.lengths.shape[0]

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all rows together."""
        return int(self.lengths.sum())

    def offsets(self) -> Int64[Tensor, "rows"]:
        """Return where each row's tokens begin in the per-token columns."""
        return self.lengths.cumsum(0) - self.lengths

    def schema(self) -> Schema:
        """Return the names and dtypes, whatever the order of the mappings."""
        return Schema(
            per_token=tuple((name, self.per_token[name].dtype) for name in sorted(self.per_token)),
            per_row=tuple((name, self.per_row[name].dtype) for name in sorted(self.per_row)),
            per_turn=tuple((name, self.per_turn[name].dtype) for name in sorted(self.per_turn)),
        )

    def turn_counts(self) -> Int64[Tensor, "rows"]:
        """Return the turns of each row, zeros where there are none."""
        return torch.zeros_like(self.lengths) if self.turns is None else self.turns

    def select(self, rows: Int64[Tensor, "selected"] | Sequence[int]) -> "Columns":
        """Gather rows in the given order; a row may be named more than once.

        Args:
            rows: Positions in `range(num_rows)`, shape [selected].
        """
        picked = torch.as_tensor(rows, dtype=torch.int64, device=self.lengths.device)
        lengths = self.lengths.index_select(0, picked)
        tokens = spread(self.offsets().index_select(0, picked), lengths)
        counts = self.turn_counts()
        turns = counts.index_select(0, picked)
        places = spread((counts.cumsum(0) - counts).index_select(0, picked), turns)
        return Columns(
            lengths=lengths,
            per_token={n: column.index_select(0, tokens) for n, column in self.per_token.items()},
            per_row={n: column.index_select(0, picked) for n, column in self.per_row.items()},
            turns=None if self.turns is None else turns,
            per_turn={n: column.index_select(0, places) for n, column in self.per_turn.items()},
        )


def spread(
    starts: Int64[Tensor, "pieces"], lengths: Int64[Tensor, "pieces"]
) -> Int64[Tensor, "elements"]:
    """Return the places of ragged pieces: starts[p], starts[p] + 1, ... for lengths[p] elements."""
    shift = (starts - (lengths.cumsum(0) - lengths)).repeat_interleave(lengths)
    return shift + torch.arange(shift.shape[0], device=shift.device)


def _check_counts(name: str, counts: Tensor) -> None:
    if counts.dtype != torch.int64 or counts.ndim != 1:
        raise ValueError(f"{name} must be 1-D int64, got {_describe(counts)}")
    if counts.shape[0] and int(counts.min()) < 0:
        raise ValueError(f"{name} must be >= 0, got {int(counts.min())}")


def _describe(tensor: Tensor) -> str:
    return f"{tensor.dtype} of shape {list(tensor.shape)}"
