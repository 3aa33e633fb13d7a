"""Columns that a model computes, one pack of rows at a time."""

from collections.abc import Callable

import torch
from earl_dispatch import Columns, Schema

from earl_trainer.experience.packing import pack_first_fit


def compute_by_pack(
    columns: Columns, compute: Callable[[Columns], Columns], schema: Schema, *, max_tokens: int
) -> Columns:
    """Compute columns of rows and put them back into the order of the rows.

    Args:
        columns: All rows.
        compute: From a pack of rows to as many rows of what is computed.
        schema: Of what is computed.
        max_tokens: Of a pack.

    Raises:
        ValueError: If a row is longer than `max_tokens`.
    """
    packs = pack_first_fit(columns.lengths.tolist(), capacity_tokens=max_tokens)
    computed = [compute(columns.select(rows)) for rows in packs]
    order = torch.tensor([row for rows in packs for row in rows])
    return Columns.concat([Columns.empty(schema), *computed]).select(order.argsort())
