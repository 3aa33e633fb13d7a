"""2048: slide and merge tiles until one of them shows the target.

Rules are G. Cirulli's (https://github.com/gabrielecirulli/2048): a merged tile does not merge again
in the same move, and after each move a 2 (probability 0.9) or a 4 appears on an empty cell.
"""

from functools import cache
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

_NAMES = ("left", "down", "right", "up")
_SIZE = 4
_NUM_CELLS = _SIZE * _SIZE
_LINES = (
    tuple(tuple(range(row, row + _SIZE)) for row in range(0, _NUM_CELLS, _SIZE)),
    tuple(tuple(range(_NUM_CELLS - _SIZE + column, -1, -_SIZE)) for column in range(_SIZE)),
    tuple(tuple(range(row + _SIZE - 1, row - 1, -1)) for row in range(0, _NUM_CELLS, _SIZE)),
    tuple(tuple(range(column, _NUM_CELLS, _SIZE)) for column in range(_SIZE)),
)
"""For each way, its four lines of cells, the cell that tiles slide to first."""


class Tiles(NamedTuple):
    """The tiles and the chance to come."""

    exponents: tuple[int, ...]
    """Row by row, n for the tile 2**n and 0 for an empty cell."""
    num_moves: int
    chance: int
    """State of the generator that decides the next tile."""


@cache  # bounded by the game: lines of four tiles of at most 17 kinds
def slide(line: tuple[int, ...]) -> tuple[int, ...]:
    """Slide exponents to the front of a line and merge equal neighbours once."""
    tiles = [exponent for exponent in line if exponent]
    merged: list[int] = []
    place = 0
    while place < len(tiles):
        pair = place + 1 < len(tiles) and tiles[place] == tiles[place + 1]
        merged.append(tiles[place] + pair)
        place += 1 + pair
    return (*merged, *[0] * (len(line) - len(merged)))


@final
class Game2048(Game[Tiles]):
    """One player slides tiles on four by four cells.

    The game ends with a tile of `target`, without a move that changes the board, or after `target`
    moves: each move adds 2 or 4 to the sum of the tiles, so that good play needs about half as
    many. The score is how far the largest tile has come, in doublings: 0 for a 2, 1 for the target.

    Example:
        Game2048(target=64)   # a game of about 30 moves
    """

    num_seats = 1
    num_actions = 4
    min_return = 0.0

    def __init__(self, *, target: int = 2048) -> None:
        if not 8 <= target <= 65_536 or target & (target - 1):
            raise ValueError(f"target must be a power of two in 8..65536, got {target}")
        self.target = self.max_moves = target
        self._goal = target.bit_length() - 1

    def initial(self, rng: np.random.Generator) -> Tiles:
        """Put two tiles on an empty board."""
        chance = int(rng.integers(2**63))
        return _spawn(_spawn(Tiles((0,) * _NUM_CELLS, 0, chance)))

    def seat(self, state: Tiles) -> int:
        """Return 0, the only seat."""
        return 0

    def legal(self, state: Tiles) -> list[int]:
        """Return the ways (left, down, right, up) that change the board, none after the end."""
        tiles = state.exponents
        if state.num_moves >= self.max_moves or self._goal in tiles:
            return []
        return [way for way in range(4) if _moved(tiles, way) != tiles]

    def apply(self, state: Tiles, action: int) -> Tiles:
        """Slide every tile one way, then put a new one on an empty cell."""
        tiles = _moved(state.exponents, action)
        return _spawn(Tiles(tiles, state.num_moves + 1, state.chance))

    def returns(self, state: Tiles) -> tuple[float] | None:
        """Score the doublings from 2 to the largest tile, as a share of those to the target."""
        if self.legal(state):
            return None
        return ((max(state.exponents) - 1) / (self._goal - 1),)

    def text(self, state: Tiles, seat: int) -> str:
        """Show the tiles row by row, `.` for an empty cell."""
        marks = [str(2**exponent) if exponent else "." for exponent in state.exponents]
        return "\n".join(" ".join(marks[i : i + _SIZE]) for i in range(0, _NUM_CELLS, _SIZE))

    def move_name(self, state: Tiles, action: int) -> str:
        """Name a way: `[left]`, `[down]`, `[right]` or `[up]`."""
        return f"[{_NAMES[action]}]"

    def planes(self, state: Tiles, seat: int) -> NDArray[np.uint8]:
        """Return one plane per tile from 2 to the target."""
        kinds = np.arange(1, self._goal + 1)[:, None]
        planes = (np.array(state.exponents) == kinds).astype(np.uint8)
        return planes.reshape(-1, _SIZE, _SIZE)

    def resample(self, state: Tiles, seat: int, rng: np.random.Generator) -> Tiles:
        """Draw the tiles to come anew."""
        return state._replace(chance=int(rng.integers(2**63)))

    def rules(self) -> str:
        """Explain aim, tiles and reply."""
        return (
            "2048. All tiles slide as far as they can the way you choose; two equal tiles that "
            "meet become one of their sum. Then a new 2 or 4 appears on an empty cell. A move "
            f"must change the board. Make a tile of {self.target}. Reply with one move: [left], "
            "[down], [right] or [up]."
        )


def _moved(tiles: tuple[int, ...], way: int) -> tuple[int, ...]:
    moved = [0] * _NUM_CELLS
    for line in _LINES[way]:
        for cell, exponent in zip(line, slide(tuple(tiles[cell] for cell in line)), strict=True):
            moved[cell] = exponent
    return tuple(moved)


def _spawn(state: Tiles) -> Tiles:
    empty = [cell for cell, exponent in enumerate(state.exponents) if not exponent]
    # D. Knuth's linear congruential generator MMIX; its high bits are the random ones.
    chance = (6364136223846793005 * state.chance + 1442695040888963407) % 2**64
    place, tenth = divmod((chance >> 32) % (10 * len(empty)), 10)
    tiles = list(state.exponents)
    tiles[empty[place]] = 2 if tenth == 0 else 1
    return Tiles(tuple(tiles), state.num_moves, chance)
