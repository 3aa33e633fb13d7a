"""Rooms for the keys and values of many conversations: one row each, kept from turn to turn."""

from collections.abc import Sequence
from typing import final

from jaxtyping import Float, Int64
from torch import Tensor


@final
class KeyValueRooms:
    """Rows of equally many slots; the token at position p of a row's context lies in its slot p.

    Keys and values lie as [rows, slots, heads, head_dim], with as many heads as the model's keys
    have: so the beginning of a row is one block, and rows next to each other are read as a view.

    Lifecycle: `reshape` first and whenever there are too few or too short rows; then `write` and
    `read`, layer by layer, in each forward pass.
    """

    def __init__(self) -> None:
        self.num_rows = 0
        self.num_slots = 0
        """Of each row."""
        # [2, rows, slots, heads, head_dim] of every layer that has been written to.
        self._layers: dict[int, Tensor] = {}

    @property
    def num_bytes(self) -> int:
        """Bytes of storage allocated, all layers together."""
        return sum(layer.untyped_storage().nbytes() for layer in self._layers.values())

    def clear(self) -> None:
        """Let go of all keys and values; the shape stays."""
        self._layers = {}

    def reshape(self, num_rows: int, num_slots: int, *, keep: Sequence[tuple[int, int]]) -> None:
        """Make new rows and move what is kept into them; one layer at a time lies there twice.

        Args:
            num_rows: From now on.
            num_slots: Of each row, from now on.
            keep: (row, tokens) of the rows that become the rows 0, 1, ...
        """
        for number, old in self._layers.items():
            new = old.new_zeros((2, num_rows, num_slots, *old.shape[3:]))
            for row, (old_row, num_tokens) in enumerate(keep):
                new[:, row, :num_tokens] = old[:, old_row, :num_tokens]
            self._layers[number] = new
        self.num_rows, self.num_slots = num_rows, num_slots

    def copy(self, source: int, targets: Sequence[int], *, num_tokens: int) -> None:
        """Copy the first tokens of a row to the beginning of others."""
        for layer in self._layers.values():
            for target in targets:
                layer[:, target, :num_tokens] = layer[:, source, :num_tokens]

    def write(
        self,
        layer: int,
        slots: Int64[Tensor, " tokens"],
        key: Float[Tensor, "tokens kv_heads head_dim"],
        value: Float[Tensor, "tokens kv_heads head_dim"],
    ) -> None:
        """Store new tokens of one layer.

        Args:
            layer: Number of the layer.
            slots: [tokens] row * num_slots + slot of each.
            key: Positions applied.
            value: As `key`.
        """
        if layer not in self._layers:
            shape = (2, self.num_rows, self.num_slots, *key.shape[1:])
            # Zeros: what a masked slot holds is multiplied by 0, and a NaN would survive that.
            self._layers[layer] = key.new_zeros(shape)
        keys, values = self._layers[layer].flatten(1, 2)
        keys.index_copy_(0, slots, key)
        values.index_copy_(0, slots, value)

    def read(
        self, layer: int, rows: slice | Int64[Tensor, " rows"], *, num_slots: int
    ) -> tuple[
        Float[Tensor, "rows kv_heads slots head_dim"], Float[Tensor, "rows kv_heads slots head_dim"]
    ]:
        """Return keys and values of rows' first slots: a view of a slice, else a copy."""
        keys, values = self._layers[layer][:, :, :num_slots]
        if isinstance(rows, slice):
            keys, values = keys[rows], values[rows]
        else:
            # One by one: selecting from both at once makes the library copy the whole room first.
            keys, values = keys.index_select(0, rows), values.index_select(0, rows)
        return keys.transpose(1, 2), values.transpose(1, 2)
