"""Columns as a TensorDict, and back."""

import importlib
from collections.abc import Collection, Iterable
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from earl_dispatch.adapters.padding import find_runs, pad, padding_mask, position_ids, unpad
from earl_dispatch.columns import Columns

_DERIVED = ("lengths", "turns", "attention_mask", "position_ids")


@runtime_checkable
class TensorMapping(Protocol):
    """What is needed of a `TensorDict`; dictionaries have it too."""

    def keys(self) -> Iterable[str]:
        """Return the names."""
        ...

    def __getitem__(self, name: str, /) -> Tensor: ...


def to_tensordict(columns: Columns, *, jagged: bool = False) -> TensorMapping:
    """Return a `TensorDict` of batch size [rows] that has every column under its name.

    Besides the columns it has `lengths`, and `turns` where rows have turns, each of shape [rows].
    It needs the library `tensordict`.

    Args:
        columns: Rows.
        jagged: Whether columns per token and per turn become jagged nested tensors. Otherwise they
            are padded with zeros at the end, and `attention_mask` (bool) and `position_ids` (int64)
            of shape [rows, longest] are added.

    Raises:
        ValueError: If a column has the name of one of those that are added.
    """
    _require_free_names(columns)
    tensors: dict[str, Tensor] = {"lengths": columns.lengths, **columns.per_row}
    ragged = [(columns.per_token, columns.lengths)]
    if columns.turns is not None:
        tensors["turns"] = columns.turns
        ragged.append((columns.per_turn, columns.turns))
    for group, counts in ragged:
        for name, values in group.items():
            tensors[name] = _nested(values, counts) if jagged else _padded(values, counts)
    if not jagged:
        mask = padding_mask(
            torch.zeros_like(columns.lengths), columns.lengths, width=_longest(columns.lengths)
        )
        tensors |= {"attention_mask": mask, "position_ids": position_ids(mask)}
    # Not a dependency, so that nothing but this function may need it.
    tensordict: Any = importlib.import_module("tensordict")
    return tensordict.TensorDict(
        tensors, batch_size=[columns.num_rows], device=columns.lengths.device
    )


def from_tensordict(tensordict: TensorMapping, *, per_turn: Collection[str] = ()) -> Columns:
    """Return the columns of a `TensorDict`, or of any mapping of tensors.

    Tensors of one dimension are per row; of two, padded or jagged, per token or per turn. Lengths
    are those of `lengths`, or of a jagged column, or of runs of ones in `attention_mask`, which may
    be padded on either side; turns likewise those of `turns` or of a jagged column. Position ids
    and the mask follow from the lengths and are left out.

    Args:
        tensordict: Of batch size [rows].
        per_turn: Names of the columns that are per turn.

    Raises:
        ValueError: If no lengths can be found, or not one per row, or a tensor has more dimensions.
    """
    tensors: dict[str, Tensor] = {str(name): tensordict[name] for name in tensordict.keys()}  # noqa: SIM118 - iterating over a TensorDict goes over its rows
    columns = {name: tensor for name, tensor in tensors.items() if name not in _DERIVED}
    wrong = [name for name, tensor in columns.items() if tensor.ndim not in (1, 2)]
    if wrong:
        raise ValueError(
            f"columns have 1 or 2 dimensions, {wrong[0]!r} has {columns[wrong[0]].ndim}"
        )
    ragged = {name: tensor for name, tensor in columns.items() if tensor.ndim == 2}
    turn_names = [name for name in ragged if name in per_turn]
    token_names = [name for name in ragged if name not in per_turn]
    starts, lengths = _find_counts("lengths", tensors, token_names)
    turns = None
    if turn_names or "turns" in tensors:
        _, turns = _find_counts("turns", tensors, turn_names)
    return Columns(
        lengths=lengths,
        per_token={name: _flat(ragged[name], starts, lengths) for name in token_names},
        per_row={name: tensor for name, tensor in columns.items() if tensor.ndim == 1},
        turns=turns,
        per_turn={
            name: _flat(ragged[name], torch.zeros_like(lengths), turns)
            for name in turn_names
            if turns is not None
        },
    )


def _require_free_names(columns: Columns) -> None:
    taken = {*columns.per_token, *columns.per_row, *columns.per_turn} & set(_DERIVED)
    if taken:
        raise ValueError(f"a TensorDict's {sorted(taken)[0]!r} is derived, rename the column")


def _find_counts(key: str, tensors: dict[str, Tensor], names: list[str]) -> tuple[Tensor, Tensor]:
    """Return where rows start in padded columns, and how many values they have."""
    jagged = [tensors[name] for name in names if tensors[name].is_nested]
    mask = tensors.get("attention_mask")
    if key == "lengths" and mask is not None and not mask.is_nested and not jagged:
        return find_runs(mask)
    if key in tensors:
        counts = tensors[key]
    elif jagged:
        nested: Any = jagged[0]
        counts = nested.offsets().diff()
    else:
        raise ValueError(f"padded columns need {key!r} to tell values from padding, there is none")
    return torch.zeros_like(counts), counts


def _flat(column: Tensor, starts: Tensor, counts: Tensor) -> Tensor:
    return column.values() if column.is_nested else unpad(column, starts, counts)


def _nested(values: Tensor, counts: Tensor) -> Tensor:
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def _padded(values: Tensor, counts: Tensor) -> Tensor:
    return pad(values, torch.zeros_like(counts), counts, width=_longest(counts))


def _longest(counts: Tensor) -> int:
    return int(counts.max()) if len(counts) else 0
