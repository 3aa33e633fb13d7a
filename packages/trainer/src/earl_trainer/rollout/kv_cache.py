"""Key/value storage of the embedded engine: conversations that grow turn by turn in exact rooms."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast, final

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


@final
@dataclass(slots=True)
class _Pass:
    """Where the next forward pass writes; one object shared by all layers.

    The token at `queries[i]` of row `rows[i]` goes to slot `slots[i]`.
    """

    num_slots: int
    """Allocated per row."""
    num_read_slots: int = 0
    """Of the longest row, the new tokens included."""
    rows: Int64[Tensor, " tokens"] | None = None
    queries: Int64[Tensor, " tokens"] | None = None
    slots: Int64[Tensor, " tokens"] | None = None


@final
class _Layer(CacheLayerMixin):
    """One layer's keys and values in a room allocated once. Layout [rows, heads, slots, head_dim].

    The library's growing cache concatenates, which copies everything held for every new token, and
    gives all rows the same slots; here every row fills its own slots from the first on.
    """

    is_sliding = False
    is_croppable = False

    def __init__(self, target: _Pass) -> None:
        super().__init__()
        self._target = target
        self.room_keys = self.room_values = torch.empty(0)

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        # Zeros: what a masked slot holds is multiplied by 0, and a NaN would survive that.
        self.room_keys, self.room_values = (
            states.new_zeros((*states.shape[:2], self._target.num_slots, states.shape[-1]))
            for states in (key_states, value_states)
        )
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
        to = self._target
        assert to.rows is not None
        self.room_keys[to.rows, :, to.slots] = key_states[to.rows, :, to.queries]
        self.room_values[to.rows, :, to.slots] = value_states[to.rows, :, to.queries]
        self.keys = self.room_keys[:, :, : to.num_read_slots]
        self.values = self.room_values[:, :, : to.num_read_slots]
        return self.keys, self.values

    def fill(self, parts: "Sequence[tuple[_Layer, Int64[Tensor, ' _'], int]]") -> None:
        """Take over rows of other layers, each part with the slots that it uses."""
        num_slots = self._target.num_slots
        self.room_keys = _gather([(x.room_keys, rows, used) for x, rows, used in parts], num_slots)
        self.room_values = _gather(
            [(x.room_values, rows, used) for x, rows, used in parts], num_slots
        )
        self.is_initialized = True

    def release(self) -> None:
        self.room_keys = self.room_values = self.keys = self.values = torch.empty(0)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self._target.num_read_slots, 0

    def get_seq_length(self) -> int:
        return 0 if self.keys is None else self.keys.shape[-2]

    def get_max_length(self) -> int:
        return -1


def _gather(parts: Sequence[tuple[Tensor, Int64[Tensor, " _"], int]], num_slots: int) -> Tensor:
    first, num_rows = parts[0][0], sum(len(rows) for _, rows, _ in parts)
    gathered = first.new_empty((num_rows, first.shape[1], num_slots, first.shape[-1]))
    start = 0
    for tensor, rows, used in parts:
        place = gathered[start : start + len(rows)]
        torch.index_select(tensor[:, :, :used], 0, rows, out=place[:, :, :used])
        place[:, :, used:] = 0
        start += len(rows)
    return gathered


@final
class Conversations:
    """The contexts that an engine holds: one row each, with its tokens and their keys and values.

    Rows may have different lengths: the token at position p of a row lies in the row's slot p. So
    every row has as many slots as the longest may come to need, and none is lost to how the turns
    of different rows fall.

    Lifecycle: made empty, then `prepare` and the model's forward with `cache`, again and again, up
    to `num_slots` tokens per row; `regroup` moves rows into others.

    Args:
        num_rows: Conversations.
        num_slots: Tokens that each has room for; allocated by the first forward pass.
        device: Where keys and values are kept.
    """

    def __init__(self, num_rows: int, *, num_slots: int, device: torch.device) -> None:
        self.contexts: list[list[int]] = [[] for _ in range(num_rows)]
        self.device = device
        self.target = _Pass(num_slots)
        # The library only ever calls it.
        layer_class = cast("type[_Layer]", partial(_Layer, self.target))
        self.cache = Cache(layer_class_to_replicate=layer_class)

    @property
    def num_slots(self) -> int:
        """Slots of one row."""
        return self.target.num_slots

    @property
    def num_slots_held(self) -> int:
        """Slots allocated, all rows together."""
        return self.num_slots * len(self.contexts) if self.cache.layers else 0

    @property
    def num_bytes(self) -> int:
        """Bytes of the storage allocated, all layers together."""
        return sum(
            tensor.untyped_storage().nbytes()
            for layer in map(_own, self.cache.layers)
            for tensor in (layer.room_keys, layer.room_values)
        )

    def longest_tokens(self, rows: Sequence[int]) -> int:
        """Return the length of the longest of some contexts; 0 for none."""
        return max((len(self.contexts[row]) for row in rows), default=0)

    def prepare(
        self, new_ids: Sequence[Sequence[int]]
    ) -> tuple[
        Int64[Tensor, "rows width"],
        Int64[Tensor, "rows width"],
        Bool[Tensor, "rows 1 width slots"] | None,
    ]:
        """Record new tokens per row (none for some rows) and lay them out for the forward pass.

        Returns:
            Token ids and positions [rows, width], right-aligned, and the attention mask
            [rows, 1, width, slots]; None for the mask where plain causal attention is the same.

        Raises:
            ValueError: If a row has no room for its tokens.
        """
        num_held = np.array([len(context) for context in self.contexts])
        num_new = np.array([len(ids) for ids in new_ids])
        longest = int((num_held + num_new).max())
        if longest > self.num_slots:
            raise ValueError(f"{longest} tokens do not fit the {self.num_slots} slots of a row")
        width = int(num_new.max())
        rows = np.repeat(np.arange(len(num_new)), num_new)
        nth = np.arange(len(rows)) - np.repeat(num_new.cumsum() - num_new, num_new)
        queries, slots = (width - num_new)[rows] + nth, num_held[rows] + nth
        # Where a row has no token, token 0 looks at slot 0: a query that sees nothing would be NaN.
        tokens, positions = np.zeros((2, len(num_new), width), dtype=np.int64)
        tokens[rows, queries] = [token for ids in new_ids for token in ids]
        positions[rows, queries] = slots
        for context, ids in zip(self.contexts, new_ids, strict=True):
            context.extend(ids)
        to = self.target
        to.num_read_slots = longest
        to.rows, to.queries, to.slots = map(self._on_device, (rows, queries, slots))
        places = self._on_device(positions)
        read = torch.arange(longest, device=self.device)
        plain = longest == width and bool((num_new == width).all())
        mask = None if plain else (read <= places[:, :, None])[:, None]
        return self._on_device(tokens), places, mask

    def _on_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.device)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that `regroup` is to put together."""

    picks: Sequence[tuple[Conversations, Sequence[int]]]
    """Conversations that have been through the same model, and rows of them, in this order; a row
    may be named several times."""
    num_slots: int
    """Of each row; at least its tokens."""

    @property
    def as_it_is(self) -> Conversations | None:
        """The conversations, if the group is one set as it stands."""
        (whole, rows), *more = self.picks
        same = list(rows) == list(range(len(whole.contexts))) and whole.num_slots == self.num_slots
        return whole if same and not more else None


def regroup(groups: Sequence[Group]) -> list[Conversations]:
    """Move rows into other conversations, their keys and values as they are.

    The sources are empty afterwards; what no group names is lost. Slots are copied layer by layer
    and a source's layer is freed when it has been copied, so that never more than one layer of
    what is held is there twice.

    Returns:
        One set per group. A group that is one set already, in order and in size, is that very set.
    """
    kept = [group.as_it_is for group in groups]
    moved = [group for group, whole in zip(groups, kept, strict=True) if whole is None]
    made = [_hold(group) for group in moved]
    parts = [[(source, *_used(source, rows)) for source, rows in group.picks] for group in moved]
    sources = list({id(source): source for group in moved for source, _ in group.picks}.values())
    for number in range(max((len(source.cache.layers) for source in sources), default=0)):
        for new, picked in zip(made, parts, strict=True):
            layer = _Layer(new.target)
            layer.fill([
                (_own(source.cache.layers[number]), rows, used) for source, rows, used in picked
            ])
            new.cache.layers.append(layer)
        for source in sources:
            _own(source.cache.layers[number]).release()
    for source in sources:
        source.contexts = []
    rest = iter(made)
    return [next(rest) if whole is None else whole for whole in kept]


def _hold(group: Group) -> Conversations:
    """Make the conversations of a group, without their layers yet."""
    made = Conversations(0, num_slots=group.num_slots, device=group.picks[0][0].device)
    made.contexts = [list(source.contexts[row]) for source, rows in group.picks for row in rows]
    return made


def _used(source: Conversations, rows: Sequence[int]) -> tuple[Int64[Tensor, " rows"], int]:
    """Return the index of rows and how many slots of them hold tokens."""
    index = torch.tensor(rows, dtype=torch.int64, device=source.device)
    return index, source.longest_tokens(rows)


def _own(layer: object) -> _Layer:
    assert isinstance(layer, _Layer)
    return layer
