"""One forward pass over new tokens of many conversations, whatever the number of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from earl_trainer.rollout.kv_rooms import KeyValueRooms

_COPIES_PER_QUERY = 2
"""Rows that can be copied in about the time in which one query attends to a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTokens:
    """What the pass reads into one row."""

    row: int
    num_held: int
    """Tokens that the row holds already."""
    ids: Sequence[int]
    """At least one."""


@dataclass(slots=True, kw_only=True)
class _Group:
    """Rows with about equally many new tokens, which attend together."""

    tokens: slice
    """Theirs in the pass."""
    rows: slice | Int64[Tensor, " rows"]
    """Of the rooms; those of a slice that are not asked for attend to their slot 0, for nothing."""
    num_slots: int
    """Of the longest, the new tokens included."""
    width: int
    """The most new tokens of a row."""
    queries: Int64[Tensor, " tokens"] | None
    """row * width + number of each token; None where that is their order already."""
    visible: Bool[Tensor, "rows 1 width slots"]
    mask: Tensor | None = None
    """What is added to the scores; made once for all layers."""

    def attend(
        self,
        query: Float[Tensor, "tokens heads head_dim"],
        keys: Float[Tensor, "rows kv_heads slots head_dim"],
        values: Float[Tensor, "rows kv_heads slots head_dim"],
        *,
        scaling: float,
    ) -> Float[Tensor, "tokens heads head_dim"]:
        """Attend within each row, grouped heads included."""
        num_rows, num_kv_heads = keys.shape[:2]
        padded = query
        if self.queries is not None:
            padded = query.new_zeros((num_rows * self.width, *query.shape[1:]))
            padded.index_copy_(0, self.queries, query)
        # Heads that share keys become further queries of the same keys: nothing is repeated.
        shape = (num_rows, self.width, num_kv_heads, -1, query.shape[-1])
        stacked = padded.reshape(shape).permute(0, 2, 3, 1, 4)
        attended = scaled_dot_product_attention(
            stacked.flatten(2, 3),
            keys,
            values,
            attn_mask=self._mask(stacked.shape[2], query.dtype),
            scale=scaling,
        )
        rows = attended.unflatten(2, stacked.shape[2:4]).permute(0, 3, 1, 2, 4)
        flat = rows.reshape(num_rows * self.width, *query.shape[1:])
        return flat if self.queries is None else flat[self.queries]

    def _mask(self, heads_per_key: int, dtype: torch.dtype) -> Tensor:
        if self.mask is None:
            visible = self.visible.repeat(1, 1, heads_per_key, 1)
            zeros = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
            self.mask = zeros.masked_fill_(~visible, float("-inf"))
        return self.mask


@final
class PackedRows:
    """New tokens of rows, one row after the other without padding, for `packed_logits`.

    In attention alone rows are padded: to the longest of those whose numbers of new tokens round up
    to the same power of two, so that a pass over few prompts and many replies takes few calls.

    Args:
        rooms: Where keys and values lie; with room for the new tokens.
        parts: What is new, each in a row of its own.
        device: Of the model.
    """

    def __init__(
        self, rooms: KeyValueRooms, parts: Sequence[NewTokens], *, device: torch.device
    ) -> None:
        self._rooms = rooms
        self._device = device
        order = sorted(range(len(parts)), key=lambda place: (_size(parts[place]), parts[place].row))
        ordered = [parts[place] for place in order]
        num_new = np.array([len(part.ids) for part in ordered])
        ends = num_new.cumsum()
        nth = np.arange(ends[-1]) - np.repeat(ends - num_new, num_new)
        positions = np.repeat([part.num_held for part in ordered], num_new) + nth
        slots = np.repeat([part.row for part in ordered], num_new) * rooms.num_slots + positions
        last = np.empty(len(parts), dtype=np.int64)
        last[order] = ends - 1
        self.token_ids: Int64[Tensor, " tokens"] = self._on_device(
            np.array([token for part in ordered for token in part.ids])
        )
        self.position_ids: Int64[Tensor, " tokens"] = self._on_device(positions)
        self.last: Int64[np.ndarray, " parts"] = last
        """Place of each part's last token."""
        self._slots = self._on_device(slots)
        self._groups: list[_Group] = []
        start = 0
        for _, group in groupby(ordered, key=_size):
            members = list(group)
            stop = start + sum(len(part.ids) for part in members)
            self._groups.append(self._group(members, slice(start, stop), nth, positions))
            start = stop

    def attend(
        self,
        layer: int,
        query: Float[Tensor, "1 heads tokens head_dim"],
        key: Float[Tensor, "1 kv_heads tokens head_dim"],
        value: Float[Tensor, "1 kv_heads tokens head_dim"],
        *,
        scaling: float,
    ) -> Float[Tensor, "1 heads tokens head_dim"]:
        """Store the new keys and values and attend to all that a row holds up to each token."""
        queries, keys, values = (states[0].transpose(0, 1) for states in (query, key, value))
        self._rooms.write(layer, self._slots, keys, values)
        parts = [
            group.attend(
                queries[group.tokens],
                *self._rooms.read(layer, group.rows, num_slots=group.num_slots),
                scaling=scaling,
            )
            for group in self._groups
        ]
        attended = parts[0] if len(parts) == 1 else torch.cat(parts)
        return attended.transpose(0, 1)[None]

    def _group(
        self,
        members: Sequence[NewTokens],
        tokens: slice,
        nth: Int64[np.ndarray, " tokens"],
        positions: Int64[np.ndarray, " tokens"],
    ) -> _Group:
        """Lay out rows that attend together, given in ascending order."""
        rows = np.array([part.row for part in members])
        num_new = [len(part.ids) for part in members]
        span = int(rows[-1] - rows[0]) + 1
        width = max(num_new)
        # Rows in between that are not asked for attend for nothing; without them, rows are copied.
        near = (span - len(rows)) * width * _COPIES_PER_QUERY <= len(rows)
        num_rows, padded_rows = (
            (span, rows - rows[0]) if near else (len(rows), np.arange(len(rows)))
        )
        queries = np.repeat(padded_rows * width, num_new) + nth[tokens]
        # A query that sees nothing would be NaN: where there is no token, slot 0 is looked at.
        padded = np.zeros(num_rows * width, dtype=np.int64)
        padded[queries] = positions[tokens]
        num_slots = int(padded.max()) + 1
        read = torch.arange(num_slots, device=self._device)
        places = self._on_device(padded.reshape(num_rows, 1, width, 1))
        return _Group(
            tokens=tokens,
            rows=slice(int(rows[0]), int(rows[0]) + span) if near else self._on_device(rows),
            num_slots=num_slots,
            width=width,
            queries=None if len(queries) == len(padded) else self._on_device(queries),
            visible=read <= places,
        )

    def _on_device(self, array: np.ndarray) -> Int64[Tensor, "..."]:
        return torch.from_numpy(array).to(self._device)


def _size(part: NewTokens) -> int:
    """Return the power of two that a part is padded to at most."""
    return (len(part.ids) - 1).bit_length()
