"""Which slice of which parameter moves from which rank to which when the degree changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import pairwise
from math import lcm, prod
from typing import Final, final

from earl_selector.layout import ParallelLayout

_WHOLE: Final = -1
_Piece = tuple[int, int, int, int]
"""Target rank, shard of the source (or `_WHOLE`), start and end."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterSpec:
    """One parameter of the model and along which dimension ranks split it."""

    name: str
    shape: tuple[int, ...]
    """Of the whole parameter."""
    element_bytes: int
    sharded_dim: int | None
    """None where every rank holds all of it."""

    def __post_init__(self) -> None:
        if min(self.element_bytes, *self.shape, 1) < 1:
            raise ValueError(f"sizes of {self.name} must be >= 1, got {self}")
        if self.sharded_dim is not None and not 0 <= self.sharded_dim < len(self.shape):
            raise ValueError(
                f"sharded_dim of {self.name} must be a dimension of {self.shape}, got "
                f"{self.sharded_dim}"
            )

    @property
    def num_bytes(self) -> int:
        """Return the bytes of the whole parameter."""
        return prod(self.shape) * self.element_bytes

    @property
    def size(self) -> int:
        """Return the length of the dimension along which it is cut, the first if it is not."""
        return self.shape[self.sharded_dim or 0] if self.shape else 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMove:
    """One piece of one parameter that one rank sends to another."""

    parameter: str
    source_rank: int
    target_rank: int
    start: int
    """Along the sharded dimension (the first of a whole parameter), counted in the whole one."""
    end: int
    num_bytes: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ReshardPlan:
    """Everything that moves between two layouts of the same parameters."""

    source: ParallelLayout
    target: ParallelLayout
    parameters: tuple[ParameterSpec, ...]
    moves: tuple[SliceMove, ...]
    """Parameter by parameter."""

    @property
    def bytes_moved(self) -> int:
        """Return the bytes of all moves."""
        return sum(move.num_bytes for move in self.moves)

    @property
    def bytes_lower_bound(self) -> int:
        """Return what no plan can do without: what ranks need and do not hold, summed over them."""
        parts = lcm(self.source.tp, self.target.tp)
        missing_parts = sum(
            parts // self.target.tp - (end - start)
            for start, end in (
                _find_kept(self.source, self.target, parts, rank)
                for rank in range(self.target.num_ranks)
            )
        )
        num_new = max(0, self.target.num_ranks - self.source.num_ranks)
        return sum(
            each.num_bytes * num_new
            if each.sharded_dim is None
            else each.num_bytes // parts * missing_parts
            for each in self.parameters
        )

    def received_bytes(self, rank: int) -> int:
        """Return what a rank receives."""
        return sum(move.num_bytes for move in self.moves if move.target_rank == rank)

    def sent_bytes(self, rank: int) -> int:
        """Return what a rank sends."""
        return sum(move.num_bytes for move in self.moves if move.source_rank == rank)

    def kept(self, parameter: ParameterSpec, rank: int) -> tuple[int, int]:
        """Return start and end of what a rank of the target holds already; equal if nothing."""
        if parameter.sharded_dim is None:
            return 0, parameter.size if rank < self.source.num_ranks else 0
        return _find_kept(self.source, self.target, parameter.size, rank)


def plan_reshard(
    source: ParallelLayout, target: ParallelLayout, parameters: Sequence[ParameterSpec]
) -> ReshardPlan:
    """Plan how ranks come from the shards of one layout to those of another.

    Each rank receives what it needs and does not hold, once, and nothing else, so the bytes moved
    are the least possible. Of the ranks that hold a piece, the one that has sent least so far sends
    it: list scheduling (Graham 1966, "Bounds for Certain Multiprocessing Anomalies", Bell System
    Technical Journal 45(9)).

    Between degrees of one chain (see `ParallelLayout`), with P bytes of sharded parameters:
    from a up to m a nothing moves, and from a down to a / m each rank receives P (m - 1) / a from
    its own engine, both whatever the number of engines.

    Args:
        source: Who holds what.
        target: Who is to hold what. It may have more ranks, which hold nothing yet, or fewer.
        parameters: Of the model; each name once.

    Raises:
        ValueError: If a name occurs twice or a degree does not divide a sharded size.
    """
    names = sorted(each.name for each in parameters)
    twice = [name for name, following in pairwise(names) if name == following]
    if twice:
        raise ValueError(f"each parameter must have a name of its own, got twice: {twice[0]}")
    parts = lcm(source.tp, target.tp)
    new_ranks = range(source.num_ranks, target.num_ranks)
    whole, sharded = [(rank, _WHOLE, 0, 1) for rank in new_ranks], _list_pieces(source, target)
    senders = _Senders(source)
    moves: list[SliceMove] = []
    for each in parameters:
        if each.sharded_dim is None:
            moves += _plan_moves(each, whole, each.size, senders)
        else:
            _check_divides(each, source, target)
            moves += _plan_moves(each, sharded, each.size // parts, senders)
    return ReshardPlan(
        source=source, target=target, parameters=tuple(parameters), moves=tuple(moves)
    )


@final
class _Senders:
    """The ranks that hold each shard, and how much each of them has been asked to send."""

    def __init__(self, source: ParallelLayout) -> None:
        self._sent_bytes = [0] * source.num_ranks
        self._heaps: dict[int, list[tuple[int, int]]] = {_WHOLE: []}
        for rank in range(source.num_ranks):
            self._heaps[_WHOLE].append((0, rank))
            self._heaps.setdefault(source.shard_of(rank), []).append((0, rank))

    def take(self, shard: int, num_bytes: int) -> int:
        """Charge a piece of a shard to the rank that is to send it, and return that rank."""
        heap = self._heaps[shard]
        sent_bytes, sender = heap[0]
        while sent_bytes != self._sent_bytes[sender]:  # It has sent more since it was put there.
            heapreplace(heap, (self._sent_bytes[sender], sender))
            sent_bytes, sender = heap[0]
        self._sent_bytes[sender] += num_bytes
        return sender


def _plan_moves(
    parameter: ParameterSpec, pieces: Sequence[_Piece], width: int, senders: _Senders
) -> Iterator[SliceMove]:
    """Give each piece of a parameter a sender; boundaries lie at multiples of `width`."""
    part_bytes = parameter.num_bytes // parameter.size * width
    for rank, shard, start, end in pieces:
        num_bytes = (end - start) * part_bytes
        yield SliceMove(
            parameter=parameter.name,
            source_rank=senders.take(shard, num_bytes),
            target_rank=rank,
            start=start * width,
            end=end * width,
            num_bytes=num_bytes,
        )


def _list_pieces(source: ParallelLayout, target: ParallelLayout) -> list[_Piece]:
    """List what moves of a dimension.

    Counted in parts of which lcm(a, b) make the dimension, so that no boundary lies within one.
    """
    parts = lcm(source.tp, target.tp)
    width = parts // source.tp
    pieces: list[_Piece] = []
    # Engine after engine in turn, so that each finds its own holder of a piece still idle.
    for rank in sorted(range(target.num_ranks), key=lambda rank: rank % source.tp):
        start, end = target.interval(parts, rank)
        kept = _find_kept(source, target, parts, rank)
        for shard in range(start // width, -(-end // width)):
            piece = max(start, shard * width), min(end, (shard + 1) * width)
            if piece != kept:
                pieces.append((rank, shard, *piece))
    return pieces


def _find_kept(
    source: ParallelLayout, target: ParallelLayout, size: int, rank: int
) -> tuple[int, int]:
    """Return start and end of what a rank holds in both layouts; equal if nothing."""
    if rank >= source.num_ranks:
        return 0, 0
    old_start, old_end = source.interval(size, rank)
    new_start, new_end = target.interval(size, rank)
    start = max(old_start, new_start)
    return start, max(start, min(old_end, new_end))


def _check_divides(parameter: ParameterSpec, *layouts: ParallelLayout) -> None:
    for layout in layouts:
        if parameter.size % layout.tp != 0:
            raise ValueError(
                f"tp {layout.tp} does not divide the sharded size {parameter.size} of "
                f"{parameter.name}"
            )
