"""Frozen Lake: cross the ice to the goal without falling into a hole.

Rules, slipping and move limits are Gymnasium's
(https://gymnasium.farama.org/environments/toy_text/frozen_lake/): on slippery ice a step goes the
wanted way or to either side of it, each with probability 1/3. Every game has a new lake, and there
is always a way across.
"""

from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

_NAMES = ("left", "down", "right", "up")
_STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # in turn around, so that neighbours are sideways
_HOLE_PROBABILITY = 0.2
_MOVES_PER_ROW = 25


class Lake(NamedTuple):
    """The lake, where the player stands, and the chance to come."""

    holes: frozenset[int]
    """Cells with a hole, counted row by row from the top left."""
    cell: int
    """Where the player stands."""
    num_moves: int
    chance: int
    """State of the generator that decides the next slip."""


@final
class FrozenLake(Game[Lake]):
    """One player walks from the top left to the bottom right: 1 for the goal, else 0.

    Example:
        FrozenLake(size=8, slippery=False)
    """

    num_seats = 1
    num_actions = 4
    min_return = 0.0

    def __init__(self, *, size: int = 4, slippery: bool = True) -> None:
        if size < 2:
            raise ValueError(f"size must be >= 2, got {size}")
        self.size, self.slippery = size, slippery
        self.max_moves = _MOVES_PER_ROW * size
        self.solved_value = None if slippery else (1.0,)

    def initial(self, rng: np.random.Generator) -> Lake:
        """Draw lakes until one has a way across."""
        while True:
            is_hole = rng.random(self.size**2) < _HOLE_PROBABILITY
            is_hole[[0, -1]] = False
            holes = frozenset(np.flatnonzero(is_hole).tolist())
            if self._is_crossable(holes):
                return Lake(holes, 0, 0, int(rng.integers(2**63)) if self.slippery else 0)

    def _is_crossable(self, holes: frozenset[int]) -> bool:
        seen, frontier = {0}, [0]
        while frontier:
            cell = frontier.pop()
            near = {self._neighbour(cell, way) for way in range(4)} - seen - holes
            seen |= near
            frontier.extend(near)
        return self.size**2 - 1 in seen

    def _neighbour(self, cell: int, way: int) -> int:
        (row, column), (down, right) = divmod(cell, self.size), _STEPS[way]
        row, column = row + down, column + right
        on_lake = 0 <= row < self.size and 0 <= column < self.size
        return row * self.size + column if on_lake else cell

    def seat(self, state: Lake) -> int:
        """Return 0, the only seat."""
        return 0

    def legal(self, state: Lake) -> list[int]:
        """Return all four ways (left, down, right, up), none once the game is over."""
        return [] if self.returns(state) is not None else [0, 1, 2, 3]

    def apply(self, state: Lake, action: int) -> Lake:
        """Take a step, perhaps slip; at the edge the player stays."""
        chance = state.chance
        if self.slippery:
            # D. Knuth's linear congruential generator MMIX; its high bits are the random ones.
            chance = (6364136223846793005 * chance + 1442695040888963407) % 2**64
            action = (action + (chance >> 32) % 3 - 1) % 4
        cell = self._neighbour(state.cell, action)
        return Lake(state.holes, cell, state.num_moves + 1, chance)

    def returns(self, state: Lake) -> tuple[float] | None:
        """Score 1 for the goal, 0 for a hole or too many moves."""
        if state.cell == self.size**2 - 1:
            return (1.0,)
        is_over = state.cell in state.holes or state.num_moves >= self.max_moves
        return (0.0,) if is_over else None

    def text(self, state: Lake, seat: int) -> str:
        """Draw the lake: player P, hole O, goal G, ice `.`."""
        marks = ["O" if cell in state.holes else "." for cell in range(self.size**2)]
        marks[-1] = "G"
        marks[state.cell] = "P"
        rows = range(0, len(marks), self.size)
        return "\n".join(" ".join(marks[row : row + self.size]) for row in rows)

    def move_name(self, state: Lake, action: int) -> str:
        """Name a way: `[left]`, `[down]`, `[right]` or `[up]`."""
        return f"[{_NAMES[action]}]"

    def planes(self, state: Lake, seat: int) -> NDArray[np.uint8]:
        """Return the player, the holes and the goal."""
        planes = np.zeros((3, self.size**2), np.uint8)
        planes[0, state.cell] = planes[2, -1] = 1
        planes[1, list(state.holes)] = 1
        return planes.reshape(3, self.size, self.size)

    def resample(self, state: Lake, seat: int, rng: np.random.Generator) -> Lake:
        """Draw the slips to come anew."""
        return state._replace(chance=int(rng.integers(2**63))) if self.slippery else state

    def rules(self) -> str:
        """Explain aim, map and reply."""
        slips = (
            "The ice is slippery: a third of your steps each go the way you want and to either "
            "side of it. "
            if self.slippery
            else ""
        )
        return (
            "Frozen Lake. P is you, O is a hole, G is the goal, a dot is ice. Reach the goal "
            f"within {self.max_moves} moves; a hole ends the game. {slips}Reply with one move: "
            "[left], [down], [right] or [up]."
        )
