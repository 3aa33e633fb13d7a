"""Arrays of any objects, one entry per row, as columns of bytes."""

import pickle
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from earl_dispatch.columns import Columns

_COLUMN = "pickle"


def pickle_rows(arrays: Mapping[str, NDArray[Any]], like: Int64[Tensor, "rows"]) -> Columns:
    """Return each row's entries as the bytes of one pickle; no bytes where there are no arrays.

    Args:
        arrays: By name, of [rows, ...].
        like: Any value per row, for their number and device.
    """
    names = sorted(arrays)
    rows = [
        pickle.dumps([arrays[name][row] for name in names]) if names else b""
        for row in range(len(like))
    ]
    # One byte more, as a tensor cannot be made from none.
    values = torch.frombuffer(bytearray(b"".join(rows) + b"."), dtype=torch.uint8)[:-1]
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int64)
    return Columns(lengths=lengths.to(like.device), per_token={_COLUMN: values.to(like.device)})


def unpickle_rows(columns: Columns, *, like: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays that `pickle_rows` was given, with names, dtypes and shapes of `like`.

    The bytes come from ranks that are trusted: a pickle can run any code.
    """
    names = sorted(like)
    parts = columns.per_token[_COLUMN].cpu().split(columns.lengths.tolist())
    rows: list[list[Any]] = [pickle.loads(part.numpy().tobytes()) for part in parts if names]
    return {
        name: _array_like(like[name], [row[place] for row in rows])
        for place, name in enumerate(names)
    }


def _array_like(like: NDArray[Any], entries: list[Any]) -> NDArray[Any]:
    # Entries that are lists themselves must not become further dimensions.
    array = np.empty((len(entries), *like.shape[1:]), dtype=like.dtype)
    for place, entry in enumerate(entries):
        array[place] = entry
    return array
