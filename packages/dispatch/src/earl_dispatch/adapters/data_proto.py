"""Batches in the manner of verl's `DataProto`, known by their attributes alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import ProcessGroup

from earl_dispatch.adapters.padding import find_runs, pad, padding_mask, position_ids, unpad
from earl_dispatch.adapters.pickled_rows import pickle_rows, unpickle_rows
from earl_dispatch.adapters.tensordict import TensorMapping
from earl_dispatch.columns import Columns
from earl_dispatch.dispatch import dispatch
from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout
from earl_dispatch.link import Link
from earl_dispatch.plan import plan_transfer
from earl_dispatch.shared_sizes import share_sizes

_START = "first token"
_DERIVED = ("attention_mask", "position_ids", "prompts", "responses")


@runtime_checkable
class DataProto(Protocol):
    """A padded batch; its class can be called with these three as keywords.

    `batch` maps names to tensors of [rows], of [rows, width] as wide as `attention_mask`, or of
    [rows, response width], which stand below the last tokens of the wide ones.
    """

    @property
    def batch(self) -> TensorMapping:
        """Tensors by name, a `TensorDict` or another mapping."""
        ...

    @property
    def non_tensor_batch(self) -> Mapping[str, NDArray[Any]]:
        """Arrays of any objects, one entry per row."""
        ...

    @property
    def meta_info(self) -> Mapping[str, object]:
        """What is the same for all rows."""
        ...


Proto = TypeVar("Proto", bound=DataProto)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtoColumns:
    """A batch without its padding."""

    tokens: Columns
    """Tensors per row; wide tensors per token; tensors of response width per turn, with as many
    "turns" as the row has tokens in its response."""
    objects: Columns
    """Each row's entries of `non_tensor_batch`, as pickled bytes."""


def dispatch_data_proto(
    proto: Proto,
    source: Layout,
    target: Layout,
    *,
    transport: str,
    hosts: Hosts | None = None,
    group: ProcessGroup | None = None,
    fill: Mapping[str, float | int] | None = None,
    timeout_s: float = 300.0,
) -> Proto:
    """Turn the batch that a rank holds under `source` into the one it holds under `target`.

    All ranks call it together; one without rows passes a batch of 0 rows with the same names and
    widths. Padding is not sent, nor is what follows from the rest: `attention_mask`,
    `position_ids`, `prompts`, `responses`. Ids travel as int32 and masks as bits.

    Args:
        proto: Rows of this rank, in ascending order of their global number.
        source: Where the rows are.
        target: Where they are needed, in one chunk.
        transport: Name in `TRANSPORTS`.
        hosts: Of the ranks; each on a host of its own by default.
        group: Ranks that take part; the default group if None.
        fill: What padding becomes, by name; 0 by default.
        timeout_s: Longest time to wait for the others in each exchange.

    Returns:
        A batch of the same class. `meta_info` is this rank's own.

    Raises:
        ValueError: On all ranks, if a batch cannot be carried bit for bit but for its padding, or
            if the ranks differ in what they pass.
        RuntimeError: If a rank is gone or does not take part within `timeout_s`.
    """
    problem = "" if source.num_chunks == target.num_chunks == 1 else "a DataProto has whole rows"
    try:
        columns = columns_from_data_proto(proto)
    except ValueError as error:
        problem = f"rank {Link.open(group, timeout_s=timeout_s).rank}: {error}"
        nothing = Columns(lengths=torch.zeros(0, dtype=torch.int64), per_token={})
        columns = ProtoColumns(tokens=nothing, objects=nothing)
    received: list[Columns] = []
    for held in (columns.tokens, columns.objects):
        sizes = share_sizes(held, source, group=group, problem=problem, timeout_s=timeout_s)
        plan = plan_transfer(source, target, sizes=sizes, hosts=hosts)
        received.append(dispatch(plan, held, transport=transport, group=group, timeout_s=timeout_s))
    tokens, objects = received
    return data_proto_from_columns(proto, ProtoColumns(tokens=tokens, objects=objects), fill=fill)


def columns_from_data_proto(proto: DataProto) -> ProtoColumns:
    """Take a batch apart.

    Raises:
        ValueError: If a tensor has a shape that is not known or other rows than the mask, a mask
            has gaps, or a tensor that is to be derived or narrowed would not be the same
            afterwards.
    """
    batch = _tensors(proto)
    starts, lengths = find_runs(batch["attention_mask"])
    width, response = batch["attention_mask"].shape[1], _response_width(batch)
    response_starts, response_lengths = _response_runs(starts, lengths, width, response)
    _check_derived(batch)
    per_token: dict[str, Tensor] = {}
    per_row: dict[str, Tensor] = {_START: starts.to(torch.int32)}
    per_turn: dict[str, Tensor] = {}
    for name, tensor in batch.items():
        if name in _DERIVED:
            continue
        if tensor.ndim == 1:
            per_row[name] = tensor
        elif tensor.shape[1] == width:
            per_token[name] = _narrow(name, tensor, unpad(tensor, starts, lengths))
        else:
            per_turn[name] = _narrow(name, tensor, unpad(tensor, response_starts, response_lengths))
    tokens = Columns(
        lengths=lengths,
        per_token=per_token,
        per_row=per_row,
        turns=response_lengths if per_turn else None,
        per_turn=per_turn,
    )
    return ProtoColumns(tokens=tokens, objects=pickle_rows(proto.non_tensor_batch, lengths))


def data_proto_from_columns(
    like: Proto, columns: ProtoColumns, *, fill: Mapping[str, float | int] | None = None
) -> Proto:
    """Put a batch together.

    Args:
        like: Batch whose class, names, dtypes, widths and `meta_info` are taken over.
        columns: From `columns_from_data_proto` of a batch like it.
        fill: What padding becomes, by name; 0 by default.
    """
    old, tokens, fill = _tensors(like), columns.tokens, fill or {}
    width, response = old["attention_mask"].shape[1], _response_width(old)
    starts = tokens.per_row[_START].long()
    runs = _response_runs(starts, tokens.lengths, width, response)
    batch: dict[str, Tensor] = {}
    for name, tensor in old.items():
        value = fill.get(name, 0)
        if name in tokens.per_row:
            batch[name] = tokens.per_row[name]
        elif name in tokens.per_token:
            values = tokens.per_token[name].to(tensor.dtype)
            batch[name] = pad(values, starts, tokens.lengths, width=width, fill=value)
        elif name in tokens.per_turn:
            values = tokens.per_turn[name].to(tensor.dtype)
            batch[name] = pad(values, *runs, width=response, fill=value)
    mask = padding_mask(starts, tokens.lengths, width=width)
    derived = _derive(old, mask, batch.get("input_ids"))
    batch = {name: (batch | derived)[name].to(tensor.dtype) for name, tensor in old.items()}
    make = cast(Callable[..., Proto], type(like))
    return make(
        batch=_mapping_like(like.batch, batch, tokens.num_rows),
        non_tensor_batch=unpickle_rows(columns.objects, like=like.non_tensor_batch),
        meta_info=dict(like.meta_info),
    )


def _tensors(proto: DataProto) -> dict[str, Tensor]:
    # A TensorDict is iterated over by its rows.
    batch = {str(name): proto.batch[name] for name in proto.batch.keys()}  # noqa: SIM118
    mask = batch.get("attention_mask")
    if mask is None or mask.ndim != 2:
        raise ValueError("a batch needs an attention_mask of shape [rows, width]")
    wrong = [name for name, tensor in batch.items() if tensor.ndim not in (1, 2)]
    if wrong:
        raise ValueError(
            f"tensors are [rows] or [rows, width], {wrong[0]!r} is {list(batch[wrong[0]].shape)}"
        )
    shapes = {name: tuple(tensor.shape) for name, tensor in batch.items()}
    shapes |= {name: array.shape for name, array in proto.non_tensor_batch.items()}
    uneven = [name for name, shape in shapes.items() if shape[:1] != mask.shape[:1]]
    if uneven:
        raise ValueError(
            f"everything has as many rows as the attention_mask, {len(mask)}, {uneven[0]!r} is "
            f"{list(shapes[uneven[0]])}"
        )
    return batch


def _response_width(batch: Mapping[str, Tensor]) -> int:
    width = batch["attention_mask"].shape[1]
    narrow = {
        tensor.shape[1]: name
        for name, tensor in batch.items()
        if tensor.ndim == 2 and tensor.shape[1] != width and name != "prompts"
    }
    if len(narrow) > 1 or max(narrow, default=0) > width:
        raise ValueError(
            f"tensors are as wide as the attention mask, {width}, or share one smaller width, got "
            f"{sorted(narrow.items())}"
        )
    return next(iter(narrow), width)


def _response_runs(
    starts: Tensor, lengths: Tensor, width: int, response: int
) -> tuple[Tensor, Tensor]:
    """Return where each row's tokens begin in the last `response` places, and how many."""
    first = (starts - (width - response)).clamp(min=0)
    stop = starts + lengths - (width - response)
    return first, (stop - first).clamp(min=0)


def _derive(
    batch: Mapping[str, Tensor], mask: Tensor, input_ids: Tensor | None
) -> dict[str, Tensor]:
    """Compute those of the derived tensors that a batch has."""
    derived = {"attention_mask": mask, "position_ids": position_ids(mask)}
    if input_ids is not None and "prompts" in batch:
        derived["prompts"] = input_ids[:, : batch["prompts"].shape[1]]
    if input_ids is not None and "responses" in batch:
        derived["responses"] = input_ids[:, input_ids.shape[1] - batch["responses"].shape[1] :]
    return {name: tensor for name, tensor in derived.items() if name in batch}


def _check_derived(batch: Mapping[str, Tensor]) -> None:
    mask = batch["attention_mask"].bool()
    derived = _derive(batch, mask, batch.get("input_ids"))
    for name in _DERIVED:
        if name not in batch:
            continue
        tensor = batch[name]
        same = name in derived and (
            torch.equal(tensor[mask], derived[name][mask].to(tensor.dtype))
            if name == "position_ids"
            else torch.equal(tensor, derived[name].to(tensor.dtype))
        )
        if not same:
            raise ValueError(f"{name!r} has to follow from input_ids and attention_mask")


def _narrow(name: str, padded: Tensor, values: Tensor) -> Tensor:
    """Return ids as int32 and masks as bool."""
    if name.endswith("_mask"):
        narrow = values.bool()
        if int(padded.count_nonzero()) > int(values.count_nonzero()):
            raise ValueError(f"{name!r} has ones where the attention mask has none")
    elif name == "input_ids":
        narrow = values.to(torch.int32)
    else:
        return values
    if not torch.equal(narrow.to(values.dtype), values):
        raise ValueError(f"{name!r} has values that {narrow.dtype} does not hold")
    return narrow


def _mapping_like(like: TensorMapping, batch: dict[str, Tensor], num_rows: int) -> TensorMapping:
    if hasattr(like, "batch_size"):
        make = cast(Callable[..., TensorMapping], type(like))
        return make(batch, batch_size=[num_rows])
    return batch
