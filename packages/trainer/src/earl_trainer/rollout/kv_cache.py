"""Key/value storage of the embedded engine: conversations that grow turn by turn without copies."""

from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

_ROOM_SLOTS = 64


@final
class _RoomyLayer(CacheLayerMixin):
    """One layer's keys and values with spare room behind them.

    The library's growing cache concatenates, which copies everything held for every new token; here
    a token is written into room that is already there. Layout [rows, heads, slots, head_dim].
    """

    is_sliding = False
    is_croppable = False

    def __init__(self) -> None:
        super().__init__()
        self._num_slots = 0
        self._roomy_keys = self._roomy_values = torch.empty(0)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self._roomy_keys = _with_room(key_states, 0, _ROOM_SLOTS)
        self._roomy_values = _with_room(value_states, 0, _ROOM_SLOTS)
        self.is_initialized = True

    def update(
        self,
        key_states: Tensor,
        value_states: Tensor,
        *args: object,
        **kwargs: object,
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        start, end = self._num_slots, self._num_slots + key_states.shape[-2]
        if end > self._roomy_keys.shape[-2]:
            room = -(-end // _ROOM_SLOTS) * _ROOM_SLOTS
            self._roomy_keys = _with_room(self._roomy_keys, start, room)
            self._roomy_values = _with_room(self._roomy_values, start, room)
        self._roomy_keys[..., start:end, :] = key_states
        self._roomy_values[..., start:end, :] = value_states
        self._num_slots = end
        self.keys = self._roomy_keys[..., :end, :]
        self.values = self._roomy_values[..., :end, :]
        return self.keys, self.values

    def select_rows(self, rows: Int64[Tensor, " rows"]) -> None:
        self._roomy_keys = self._roomy_keys[rows]
        self._roomy_values = self._roomy_values[rows]

    def copy_rows(self, rows: Int64[Tensor, " rows"]) -> "_RoomyLayer":
        layer = _RoomyLayer()
        layer._num_slots, layer.is_initialized = self._num_slots, True
        layer._roomy_keys, layer._roomy_values = self._roomy_keys[rows], self._roomy_values[rows]
        return layer

    @classmethod
    def join(cls, layers: "Sequence[_RoomyLayer]") -> "_RoomyLayer":
        joined = cls()
        joined._num_slots = max(layer._num_slots for layer in layers)
        joined._roomy_keys = _stack([(x._roomy_keys, x._num_slots) for x in layers])
        joined._roomy_values = _stack([(x._roomy_values, x._num_slots) for x in layers])
        joined.is_initialized = True
        return joined

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._num_slots + query_length, 0

    def get_seq_length(self) -> int:
        return self._num_slots

    def get_max_length(self) -> int:
        return -1


def _with_room(tensor: Tensor, used: int, room: int) -> Tensor:
    grown = tensor.new_empty((*tensor.shape[:2], room, tensor.shape[-1]))
    grown[..., :used, :] = tensor[..., :used, :]
    return grown


def _stack(parts: Sequence[tuple[Tensor, int]]) -> Tensor:
    """Put rows under each other; slots that a part does not have are zero, never left as found."""
    first, num_slots = parts[0][0], max(used for _, used in parts)
    num_rows, room = sum(len(tensor) for tensor, _ in parts), -(-num_slots // _ROOM_SLOTS)
    stacked = first.new_zeros((num_rows, first.shape[1], room * _ROOM_SLOTS, first.shape[-1]))
    row = 0
    for tensor, used in parts:
        stacked[row : row + len(tensor), :, :used] = tensor[:, :, :used]
        row += len(tensor)
    return stacked


@final
class Conversations:
    """The contexts that an engine holds: one row each, with its tokens, slots and keys/values.

    Rows may have different lengths. New tokens go to the same slots in all rows, right-aligned; a
    slot that a row does not use is marked empty and never attended to.

    Lifecycle: made empty, then `prepare` and the model's forward with `cache`, again and again.
    """

    def __init__(self, num_rows: int, device: torch.device) -> None:
        self.cache = Cache(layer_class_to_replicate=_RoomyLayer)
        self.contexts: list[list[int]] = [[] for _ in range(num_rows)]
        self._filled = torch.zeros((num_rows, 0), dtype=torch.bool, device=device)

    @classmethod
    def join(cls, parts: "Sequence[Conversations]") -> "Conversations":
        """Return the rows of all parts, which have been through the same model, as new ones."""
        joined = cls(0, parts[0].device)
        joined.contexts = [list(context) for part in parts for context in part.contexts]
        num_slots = max(part._filled.shape[1] for part in parts)
        joined._filled = torch.cat([
            torch.nn.functional.pad(part._filled, (0, num_slots - part._filled.shape[1]))
            for part in parts
        ])
        joined.cache.layers.extend(
            _RoomyLayer.join([_roomy(layer) for layer in layers])
            for layers in zip(*(part.cache.layers for part in parts), strict=True)
        )
        return joined

    @property
    def num_tokens(self) -> int:
        """Tokens held, all rows together."""
        return sum(map(len, self.contexts))

    @property
    def device(self) -> torch.device:
        """Where the slots are kept."""
        return self._filled.device

    def select(self, rows: list[int]) -> None:
        """Keep `rows` only, in the given order; a row may be named several times."""
        self.contexts = [list(self.contexts[row]) for row in rows]
        if rows == list(range(len(self._filled))):
            return
        index = torch.tensor(rows, device=self.device)
        self._filled = self._filled[index]
        for layer in self.cache.layers:
            _roomy(layer).select_rows(index)

    def copy(self, rows: list[int]) -> "Conversations":
        """Return `rows`, in the given order, as conversations of their own."""
        index = torch.tensor(rows, device=self.device)
        copied = Conversations(0, self.device)
        copied.contexts = [list(self.contexts[row]) for row in rows]
        copied._filled = self._filled[index]
        copied.cache.layers.extend(_roomy(layer).copy_rows(index) for layer in self.cache.layers)
        return copied

    def prepare(
        self, new_ids: list[list[int]]
    ) -> tuple[
        Int64[Tensor, "rows width"],
        Int64[Tensor, "rows width"],
        Bool[Tensor, "rows 1 width slots"] | None,
    ]:
        """Record new tokens per row (none for some rows) and lay them out for the forward pass.

        Returns:
            Token ids and positions [rows, width], and the attention mask [rows, 1, width, slots];
            None for the mask where plain causal attention is the same.
        """
        width = max(len(ids) for ids in new_ids)
        tokens = torch.zeros((len(new_ids), width), dtype=torch.int64)
        filled = torch.zeros((len(new_ids), width), dtype=torch.bool)
        for row, ids in enumerate(new_ids):
            if ids:
                tokens[row, width - len(ids) :] = torch.tensor(ids)
                filled[row, width - len(ids) :] = True
            self.contexts[row].extend(ids)
        fresh = self._filled.shape[1] == 0
        self._filled = torch.cat([self._filled, filled.to(self.device)], dim=1)
        positions = (self._filled.cumsum(1) - 1).clamp(min=0)[:, -width:]
        mask = None if fresh and bool(filled.all()) else self._attention_mask(width)
        return tokens.to(self.device), positions, mask

    def _attention_mask(self, width: int) -> Bool[Tensor, "rows 1 width slots"]:
        num_slots = self._filled.shape[1]
        slots = torch.arange(num_slots, device=self.device)
        queries = slots[-width:, None]
        causal = self._filled[:, None, :] & (slots <= queries)
        # An empty query slot sees itself: a row of the softmax with nothing to see would be NaN.
        return (causal | (slots == queries))[:, None]


def _roomy(layer: object) -> _RoomyLayer:
    assert isinstance(layer, _RoomyLayer)
    return layer
