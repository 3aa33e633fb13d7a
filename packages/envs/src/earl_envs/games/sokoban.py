"""Sokoban on small generated levels that can always be solved.

Rules and the marks of a level are those of http://www.sokobano.de/wiki/index.php?title=Level_format
(floor is `-`). Levels are made by playing backwards: boxes start on the goals and are pulled off.
"""

from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

_NAMES = ("left", "down", "right", "up")
_WALL_PROBABILITY = 0.15
_MIN_SIZE, _MAX_SIZE = 4, 10
_MARKS = {
    (False, False, False): "-",
    (False, False, True): ".",
    (False, True, False): "$",
    (False, True, True): "*",
    (True, False, False): "@",
    (True, False, True): "+",
}
"""By whether the player, a box and a goal are there."""


class Level(NamedTuple):
    """The level as it stands; cells are counted row by row, with a wall all around."""

    walls: frozenset[int]
    goals: frozenset[int]
    boxes: frozenset[int]
    player: int
    num_moves: int


@final
class Sokoban(Game[Level]):
    """One player pushes every box onto a goal; the score is the share of boxes that are there.

    Example:
        Sokoban(size=7, num_boxes=3)
    """

    num_seats = 1
    num_actions = 4
    min_return = 0.0
    solved_value = (1.0,)

    def __init__(self, *, size: int = 6, num_boxes: int = 2) -> None:
        if not _MIN_SIZE <= size <= _MAX_SIZE:
            raise ValueError(f"size must be in {_MIN_SIZE}..{_MAX_SIZE}, got {size}")
        if not 1 <= num_boxes <= size // 2:
            raise ValueError(f"num_boxes must be in 1..{size // 2} on size {size}, got {num_boxes}")
        self.size, self.num_boxes = size, num_boxes
        self.max_moves = 10 * size * num_boxes
        # The wall around the board is kept in the state, so that no step needs a range check.
        self._width = size + 2
        self._steps = (-1, self._width, 1, -self._width)
        self._inside = [
            row * self._width + column
            for row in range(1, size + 1)
            for column in range(1, size + 1)
        ]
        self._border = frozenset(range(self._width**2)).difference(self._inside)

    def initial(self, rng: np.random.Generator) -> Level:
        """Play backwards from a solved level until every box has left the goals."""
        while True:
            is_wall = rng.random(len(self._inside)) < _WALL_PROBABILITY
            floor = [c for c, wall in zip(self._inside, is_wall, strict=True) if not wall]
            if len(floor) <= self.num_boxes:
                continue
            player, *boxes = rng.permutation(floor)[: self.num_boxes + 1].tolist()
            walls = self._border.union(self._inside).difference(floor)
            goals = frozenset(boxes)
            level = self._pulled(Level(walls, goals, goals, player, 0), rng)
            if not level.boxes & goals:
                return level

    def _pulled(self, level: Level, rng: np.random.Generator) -> Level:
        # Each of these steps undoes one move, so the way back is within half the move limit.
        walls, goals, boxes, player, _ = level
        for way in rng.integers(4, size=self.max_moves // 2).tolist():
            step = self._steps[way]
            if player + step in walls or player + step in boxes:
                continue
            if player - step in boxes:
                boxes = boxes - {player - step} | {player}
            player += step
        return Level(walls, goals, boxes, player, 0)

    def seat(self, state: Level) -> int:
        """Return 0, the only seat."""
        return 0

    def legal(self, state: Level) -> list[int]:
        """Return all four ways (left, down, right, up), none once the game is over."""
        return [] if self.returns(state) is not None else [0, 1, 2, 3]

    def apply(self, state: Level, action: int) -> Level:
        """Step and push; against a wall or a blocked box nothing moves."""
        walls, goals, boxes, player, num_moves = state
        ahead, beyond = player + self._steps[action], player + 2 * self._steps[action]
        if ahead in walls or (ahead in boxes and (beyond in walls or beyond in boxes)):
            return Level(walls, goals, boxes, player, num_moves + 1)
        if ahead in boxes:
            boxes = boxes - {ahead} | {beyond}
        return Level(walls, goals, boxes, ahead, num_moves + 1)

    def returns(self, state: Level) -> tuple[float] | None:
        """Score 1 when every box is on a goal, the share of them after too many moves."""
        if state.boxes == state.goals:
            return (1.0,)
        if state.num_moves < self.max_moves:
            return None
        return (len(state.boxes & state.goals) / self.num_boxes,)

    def text(self, state: Level, seat: int) -> str:
        """Draw the level without the wall around it."""
        marks = [
            "#"
            if cell in state.walls
            else _MARKS[cell == state.player, cell in state.boxes, cell in state.goals]
            for cell in self._inside
        ]
        rows = range(0, len(marks), self.size)
        return "\n".join(" ".join(marks[row : row + self.size]) for row in rows)

    def move_name(self, state: Level, action: int) -> str:
        """Name a way: `[left]`, `[down]`, `[right]` or `[up]`."""
        return f"[{_NAMES[action]}]"

    def planes(self, state: Level, seat: int) -> NDArray[np.uint8]:
        """Return the player, the boxes, the goals and the walls inside the board."""
        layers = ({state.player}, state.boxes, state.goals, state.walls)
        rows = [[cell in layer for cell in self._inside] for layer in layers]
        return np.array(rows, np.uint8).reshape(4, self.size, self.size)

    def rules(self) -> str:
        """Explain aim, marks and reply."""
        return (
            "Sokoban. @ is you, $ is a box, . is a goal, * is a box on a goal, + is you on a goal, "
            "# is a wall, - is floor; a wall surrounds the board. Walking into a box pushes it if "
            "the cell behind it is free; boxes cannot be pulled. Push every box onto a goal within "
            f"{self.max_moves} moves. Reply with one move: [left], [down], [right] or [up]."
        )
