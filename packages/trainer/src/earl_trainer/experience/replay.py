"""Rows of earlier steps, to be trained on again."""

import os
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from earl_dispatch import Columns
from jaxtyping import Float64, Int64
from torch import Tensor

from earl_trainer.experience.sum_tree import SumTree, stratified_masses
from earl_trainer.rollout.engine import NO_WEIGHTS

# Added to an error, so that a row without one may be drawn again.
_SMALLEST_ERROR = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRules:
    """What is kept and how it is drawn."""

    max_rows: int
    max_bytes: int
    priority_exponent: float = 0.0
    """alpha; with 0 all rows are as likely."""
    importance_exponent: float = 0.0
    """beta at first; with 1 the weights make up for all of the unequal draws."""
    max_staleness: int | None = None
    """Updates after which a row is not drawn any more, by the oldest of its tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """Rows that were drawn; one may be there more than once."""

    serials: Int64[np.ndarray, " drawn"]
    """Each row's number, counted over all that were ever added."""
    columns: Columns
    weights: Float64[np.ndarray, " drawn"]
    """Importance weights, at most 1."""


@final
class Replay:
    """Holds the newest rows within its bounds, and draws some in proportion to their priorities.

    Prioritised experience replay (Schaul et al., arXiv:1511.05952): row i is drawn with P(i) = p_i
    / sum_k p_k, p_i = (|d_i| + eps)^alpha (section 3.3), and weighs w_i = (N P(i))^-beta / max_j
    w_j (section 3.4), the maximum over all rows that may be drawn and not, as in some libraries,
    over those that were: a row then weighs the same in any company. As N cancels out, w_i = (p_min
    / p_i)^beta. beta grows linearly to 1 at the end of the run, where estimates have to be unbiased
    (section 3.4). The error d_i is the size of the row's advantages, to which a policy gradient is
    proportional; a new row has the highest priority there is (1 in an empty buffer), until it has
    been drawn once (algorithm 1). With alpha = 0 this is plain replay, first in, first out.

    Every row carries its `versions`, the weights that emitted its tokens, and the log-probs under
    them. What is too old for `max_staleness` is not drawn.

    Args:
        rules: Bounds and exponents.

    Example:
        >>> replay = Replay(ReplayRules(max_rows=4096, max_bytes=2**30))
        >>> replay.add(columns)
        >>> drawn = replay.draw(64, np.random.default_rng(seed))
    """

    def __init__(self, rules: ReplayRules) -> None:
        self._rules = rules
        self._tree = SumTree(rules.max_rows)
        # Oldest first; the rows have the numbers from `_first` on, each its leaf of the tree.
        self._chunks = deque[Columns]()
        self._first = 0
        self._num_bytes = 0

    @property
    def num_rows(self) -> int:
        """Rows that are held."""
        return sum(chunk.num_rows for chunk in self._chunks)

    @property
    def num_drawable(self) -> int:
        """Rows that are held and may be drawn."""
        return int((self._tree.leaves > 0.0).sum())

    @property
    def num_bytes(self) -> int:
        """Bytes of their columns."""
        return self._num_bytes

    def priorities(self) -> Float64[np.ndarray, " rows"]:
        """Return the priority of every row, oldest first; 0 where it may not be drawn."""
        return self._tree.leaves[self._leaves(self._first + np.arange(self.num_rows))]

    def importance_exponent(self, progress: float) -> float:
        """Return beta where a share of the run, from 0 to 1, is done."""
        first = self._rules.importance_exponent
        return first + (1.0 - first) * progress

    def draw(
        self, num_rows: int, rng: np.random.Generator, *, progress: float = 0.0
    ) -> Drawn | None:
        """Draw rows, spread over the priorities; changes nothing.

        Args:
            num_rows: At most the rows that may be drawn are.
            rng: Of the draws.
            progress: How much of the run is done, from 0 to 1.

        Returns:
            None if there is nothing to draw.
        """
        num_rows = min(num_rows, self.num_drawable)
        if not num_rows:
            return None
        leaves = self._tree.leaves
        found = self._tree.find(stratified_masses(self._tree.total, num_rows, rng))
        oldest = self._first % self._rules.max_rows
        serials = self._first + (found - oldest) % self._rules.max_rows
        lowest = leaves[leaves > 0.0].min()
        return Drawn(
            serials=serials,
            columns=self._rows(serials),
            weights=(lowest / leaves[found]) ** self.importance_exponent(progress),
        )

    def settle(self, drawn: Drawn) -> None:
        """Give rows that were drawn the priority of their own error."""
        errors = advantage_sizes(drawn.columns).numpy()
        priorities = (errors + _SMALLEST_ERROR) ** self._rules.priority_exponent
        self._tree.set(self._leaves(drawn.serials), priorities)

    def add(self, columns: Columns) -> None:
        """Hold new rows, at the highest priority there is; the oldest ones make room.

        Of more rows than fit the last ones are held.
        """
        if not columns.num_rows:
            return
        highest = float(self._tree.leaves.max()) or 1.0
        first = self._first + self.num_rows
        self._chunks.append(columns)
        self._num_bytes += int(row_bytes(columns).sum())
        self._make_room()
        held = np.arange(max(first, self._first), first + columns.num_rows)
        self._tree.set(self._leaves(held), np.full(len(held), highest))

    def expire(self, version: int) -> None:
        """Let rows be drawn no more that are too old for the weights of this version."""
        if self._rules.max_staleness is None or not self._chunks:
            return
        oldest = torch.cat([oldest_versions(chunk) for chunk in self._chunks]).numpy()
        places = np.flatnonzero(oldest < version - self._rules.max_staleness)
        self._tree.set(self._leaves(self._first + places), np.zeros(len(places)))

    def _leaves(self, serials: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        return serials % self._rules.max_rows

    def _make_room(self) -> None:
        """Drop the oldest rows until the bounds are kept; a row beyond them by itself goes too."""
        sizes = torch.cat([row_bytes(chunk) for chunk in self._chunks])
        beyond = sizes.flip(0).cumsum(0).flip(0) > self._rules.max_bytes
        num_rows = len(sizes)
        num_dropped = max(int(beyond.sum()), num_rows - self._rules.max_rows)
        dropped = self._first + np.arange(min(num_dropped, self._rules.max_rows))
        self._tree.set(self._leaves(dropped), np.zeros(len(dropped)))
        self._num_bytes -= int(sizes[:num_dropped].sum())
        self._first += num_dropped
        while num_dropped and self._chunks[0].num_rows <= num_dropped:
            num_dropped -= self._chunks.popleft().num_rows
        if num_dropped:
            oldest = self._chunks.popleft()
            self._chunks.appendleft(oldest.select(range(num_dropped, oldest.num_rows)))

    def _rows(self, serials: Int64[np.ndarray, " drawn"]) -> Columns:
        """Gather rows in the order of `serials`, touching only the chunks that hold them."""
        ends = self._first + np.cumsum([chunk.num_rows for chunk in self._chunks])
        holders = np.searchsorted(ends, serials, side="right")
        parts: list[Columns] = []
        order: list[np.ndarray] = []
        for place in np.unique(holders):
            asked = np.flatnonzero(holders == place)
            chunk = self._chunks[int(place)]
            rows = serials[asked] - (ends[place] - chunk.num_rows)
            parts.append(chunk.select(torch.from_numpy(rows)))
            order.append(asked)
        return Columns.concat(parts).select(torch.from_numpy(np.argsort(np.concatenate(order))))

    def save(self, path: Path, *, origin: Mapping[str, str]) -> None:
        """Write everything to a file, which is there whole or not at all.

        Args:
            path: The file.
            origin: What another run has to agree with to learn from the rows.
        """
        partial = path.with_name(f".{path.name}.partial")
        rows = [_to_dict(Columns.concat(list(self._chunks)))] if self._chunks else []
        values = {
            "first": self._first,
            "priorities": torch.from_numpy(self.priorities()),
            "rows": rows,
            "origin": dict(origin),
        }
        with partial.open("wb") as file:
            torch.save(values, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)

    @classmethod
    def load(cls, path: Path, rules: ReplayRules) -> "Replay":
        """Go on from what `save` wrote under the same rules.

        Raises:
            ValueError: If the file holds no rows of a replay.
        """
        values = _read(path)
        replay = cls(rules)
        replay._first = values["first"]
        for rows in values["rows"]:
            chunk = Columns(**rows)
            replay._chunks.append(chunk)
            replay._num_bytes += int(row_bytes(chunk).sum())
        serials = replay._first + np.arange(replay.num_rows)
        replay._tree.set(replay._leaves(serials), values["priorities"].numpy())
        return replay


def read_rows(path: Path) -> Columns:
    """Read the rows of a file that `Replay.save` wrote.

    Raises:
        ValueError: If there are none.
    """
    rows = _read(path)["rows"]
    if not rows:
        raise ValueError(f"{str(path)!r} holds no rows")
    return Columns(**rows[0])


def read_origin(path: Path) -> Mapping[str, str]:
    """Read what `Replay.save` was told of the rows; empty where it was told nothing.

    Raises:
        ValueError: If the file holds no rows of a replay.
    """
    return _read(path).get("origin", {})


def advantage_sizes(columns: Columns) -> Float64[Tensor, " rows"]:
    """Return the mean |advantage| of each row's trained tokens; 0 for a row without any."""
    mask = columns.per_token["mask"]
    rows = torch.arange(columns.num_rows).repeat_interleave(columns.lengths)[mask]
    sizes = columns.per_token["advantages"][mask].abs().double()
    sums = torch.zeros(columns.num_rows, dtype=torch.float64).index_add(0, rows, sizes)
    return sums / torch.bincount(rows, minlength=columns.num_rows).clamp(min=1)


def oldest_versions(columns: Columns) -> Int64[Tensor, " rows"]:
    """Return the version of the oldest weights that emitted a token of each row.

    `NO_WEIGHTS` for rows without such a token.
    """
    newest = torch.iinfo(torch.int64).max
    versions = columns.per_token["versions"].long()
    rows = torch.arange(columns.num_rows).repeat_interleave(columns.lengths)
    emitted = versions > NO_WEIGHTS
    oldest = torch.full((columns.num_rows,), newest).scatter_reduce(
        0, rows[emitted], versions[emitted], "amin"
    )
    return torch.where(oldest == newest, NO_WEIGHTS, oldest)


def row_bytes(columns: Columns) -> Int64[Tensor, " rows"]:
    """Return the bytes of each row's columns."""
    per_token = sum(column.itemsize for column in columns.per_token.values())
    per_row = sum(column.itemsize for column in columns.per_row.values())
    per_turn = sum(column.itemsize for column in columns.per_turn.values())
    return (
        columns.lengths * per_token
        + columns.turn_counts() * per_turn
        + per_row
        + columns.lengths.itemsize
    )


def _to_dict(columns: Columns) -> dict[str, Any]:  # Any: tensors and dicts of tensors
    return {
        "lengths": columns.lengths,
        "per_token": dict(columns.per_token),
        "per_row": dict(columns.per_row),
        "turns": columns.turns,
        "per_turn": dict(columns.per_turn),
    }


def _read(path: Path) -> dict[str, Any]:  # Any: what `save` wrote
    try:
        values: Any = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise
    except Exception as error:
        raise ValueError(f"{str(path)!r} holds no rows of a replay: {error}") from error
    if not isinstance(values, dict) or {"first", "priorities", "rows"} - values.keys():
        raise ValueError(f"{str(path)!r} holds no rows of a replay")
    return values
