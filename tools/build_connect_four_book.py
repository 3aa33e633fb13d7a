"""Work out the opening book of the perfect Connect Four player.

Walks every position of fewer than ten stones that the player can meet, from either seat, against
any opponent, and writes down one move that keeps its value: 3,144 positions, for which 1.6 thousand
million are searched, in six minutes on one core and 1.4 GB of memory. Every position is appended to
the progress file as soon as it is known; the same command goes on where it was stopped, and comes
to the same book.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import final

from benchmarking import ROOT
from earl_envs.opponents import connect_four_kernel as kernel
from earl_envs.opponents.connect_four_book import (
    BOOK_PATH,
    MAX_STONES,
    BookEntry,
    canonical_key,
    mirrored,
    save_book,
)
from earl_envs.opponents.connect_four_solver import ConnectFourSolver, columns_of

_PROGRESS = ROOT / "runs" / "connect_four_book.txt"
# What a lost position is defended by: as many moves ahead as take no time.
_DEFENCE_DEPTH = 10
# What the second player gets at least after each first move, mirror images left out (Allis, "A
# Knowledge-based Approach of Connect-Four", 1988, section 6). It saves questions and is not taken
# on trust: the move that is written down is proven to keep it.
_OPENING_FLOORS = (0, 0, 0, -1)

Board = tuple[int, int]
"""Stones of the side to move and all stones, in the orientation of the smaller key."""


def canonical(own: int, taken: int) -> Board:
    """Return the orientation of a position that the book holds."""
    if canonical_key(own, taken)[1]:
        return mirrored(own), mirrored(taken)
    return own, taken


def after(board: Board, column: int) -> Board | None:
    """Return the position that a move leads to, None if it ends the game."""
    own, taken = board
    move = taken + (1 << 7 * column) & 0b111111 << 7 * column
    if kernel.has_four(own | move) or taken | move == kernel.BOARD:
        return None
    return own ^ taken, taken | move


def replies(board: Board, column: int) -> Iterator[Board]:
    """Yield the positions that the player can meet next after its move."""
    reached = after(board, column)
    if reached is None:
        return
    for reply in columns_of(reached[1] + kernel.FLOOR & kernel.BOARD):
        following = after(reached, reply)
        if following is not None:
            yield canonical(*following)


def decide(solver: ConnectFourSolver, board: Board, *, floor: int) -> BookEntry:
    """Find the value of a position and the first move that keeps it.

    Args:
        solver: Answers most of it from what it has searched before.
        board: A running game.
        floor: The value is known to be at least this.
    """
    own, taken = board
    wins = columns_of(kernel.winning_cells(own, taken) & taken + kernel.FLOOR)
    if wins:
        return BookEntry(key=own + taken, value=1, column=wins[0])
    value = floor
    while value < 1 and solver.is_above(own, taken, score=value):
        value += 1
    if value == -1:
        defences = columns_of(kernel.lookahead_moves(own, taken, _DEFENCE_DEPTH))
        column = min(defences, key=lambda column: (abs(column - 3), column))
        return BookEntry(key=own + taken, value=value, column=column)
    for column in solver.ordered_columns(own, taken):
        reached = after(board, column)
        if reached is None or not solver.is_above(*reached, score=-value):
            return BookEntry(key=own + taken, value=value, column=column)
    raise AssertionError(f"no move of {board} keeps the value {value}")


@final
class Builder:
    """Walks the player's positions depth first, writing each one down when it is decided."""

    def __init__(self, progress: Path, solver: ConnectFourSolver) -> None:
        self.entries = read_progress(progress)
        self._progress = progress
        self._solver = solver
        self._visited: set[Board] = set()
        self._start_s = time.perf_counter()

    def walk(self, board: Board, *, floor: int) -> None:
        """Decide a position of the player and all that follow from it."""
        if board in self._visited or board[1].bit_count() > MAX_STONES:
            return
        self._visited.add(board)
        entry = self.entries.get(sum(board))
        if entry is None:
            entry = self._decide(board, floor)
        for following in replies(board, entry.column):
            self.walk(following, floor=entry.value)

    def _decide(self, board: Board, floor: int) -> BookEntry:
        start_s, num_before = time.perf_counter(), self._solver.num_searched
        entry = decide(self._solver, board, floor=floor)
        self.entries[entry.key] = entry
        with self._progress.open("a") as file:
            file.write(" ".join(map(str, asdict(entry).values())) + "\n")
        end_s = time.perf_counter()
        print(
            f"{len(self.entries):5} after {end_s - self._start_s:6.0f} s: "
            f"{board[1].bit_count()} stones, value {entry.value:2}, column {entry.column}, "
            f"{self._solver.num_searched - num_before:,} positions in {end_s - start_s:.2f} s",
            flush=True,
        )
        return entry


def read_progress(path: Path) -> dict[int, BookEntry]:
    """Read the positions decided so far; a line cut short by the end of a run is left out."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        return {}
    whole = path.read_text().rpartition("\n")[0]
    path.write_text(whole + "\n" if whole else "")
    rows = [tuple(map(int, line.split())) for line in whole.splitlines()]
    return {key: BookEntry(key=key, value=value, column=column) for key, value, column in rows}


def build(progress: Path, solver: ConnectFourSolver) -> list[BookEntry]:
    """Walk from both seats."""
    builder = Builder(progress, solver)
    builder.walk((0, 0), floor=0)
    for column, floor in enumerate(_OPENING_FLOORS):
        first = after((0, 0), column)
        assert first is not None
        builder.walk(canonical(*first), floor=floor)
    return list(builder.entries.values())


def main() -> None:
    """Build and store the book."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--progress", type=Path, default=_PROGRESS)
    parser.add_argument("--out", type=Path, default=BOOK_PATH)
    parser.add_argument("--table-bits", type=int, default=27, help="memory of 8 * 2**bits bytes")
    arguments = parser.parse_args()
    bits = arguments.table_bits
    entries = build(arguments.progress, ConnectFourSolver(shallow_bits=bits - 2, deep_bits=bits))
    save_book(entries, arguments.out)
    print(f"{len(entries)} positions stored in {arguments.out}")


if __name__ == "__main__":
    main()
