"""Opening moves of the perfect Connect Four player, worked out once and shipped.

The file holds every position of fewer than ten stones that the player meets from either seat when
it keeps to the book; `tools/build_connect_four_book.py` makes it. A position and its mirror image
are one entry, in the orientation whose key is smaller.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import final

import numpy as np

BOOK_PATH = Path(__file__).parent / "data" / "connect_four_book.npy"
MAX_STONES = 9
"""The largest number of stones of a position in the book."""
_NUM_COLUMNS = 7
_COLUMN = 127


@final
@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class BookEntry:
    """One position of the book."""

    key: int
    """`canonical_key` of the position."""
    value: int
    """1 if the side to move wins, 0 if the game is a draw, -1 if it loses."""
    column: int
    """A move that keeps the value, in the canonical orientation."""


def mirrored(cells: int) -> int:
    """Return a mask with its columns in the opposite order."""
    columns = [cells >> 7 * column & _COLUMN for column in range(_NUM_COLUMNS)]
    return sum(bits << 7 * column for column, bits in enumerate(reversed(columns)))


def canonical_key(own: int, taken: int) -> tuple[int, bool]:
    """Return the key of a position or of its mirror image, whichever is smaller, and which it was.

    The sum of the two masks tells positions apart (J. Tromp, https://tromp.github.io/c4/c4.html).
    """
    key = own + taken
    image = mirrored(key)
    return min(key, image), image < key


def save_book(entries: Iterable[BookEntry], path: Path) -> None:
    """Write entries, ordered by key, in 8 bytes each."""
    packed = [e.key << 8 | (e.value + 1) << 4 | e.column for e in sorted(entries)]
    np.save(path, np.array(packed, np.int64))


def read_book(path: Path) -> dict[int, BookEntry]:
    """Read what `save_book` wrote, by key."""
    packed: list[int] = np.load(path).tolist()
    entries = (BookEntry(key=p >> 8, value=(p >> 4 & 3) - 1, column=p & 15) for p in packed)
    return {entry.key: entry for entry in entries}


@cache
def shipped_book() -> MappingProxyType[int, BookEntry]:
    """Return the book of this package, read at the first question."""
    return MappingProxyType(read_book(BOOK_PATH))


def book_column(own: int, taken: int) -> int | None:
    """Return the book's move for a position, None where the book has no such position."""
    key, is_mirrored = canonical_key(own, taken)
    entry = shipped_book().get(key)
    if entry is None:
        return None
    return _NUM_COLUMNS - 1 - entry.column if is_mirrored else entry.column
