"""Drawing many boards at once, character for character as the game draws one."""

import re
from collections.abc import Hashable, Mapping
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game
from earl_envs.games.connect_four import ConnectFour
from earl_envs.games.othello import Othello
from earl_envs.games.tic_tac_toe import TicTacToe

_EMPTY_BOARDS: Mapping[type[Game], tuple[Hashable, str]] = {
    TicTacToe: ((0, 0), r"\d"),
    ConnectFour: ((0, 0), r"\."),
    Othello: ((0, 0, 0), r"\."),
}
"""Games whose text is a fixed picture with one character per cell: an empty board's state, and what
its cells look like there. Their moves have the same names in every position."""

_END = "\x00"  # no picture has it


@final
class BoardText:
    """Draws positions of one game from its planes, all in one array of characters.

    Example:
        board = BoardText(make_game("earl/TicTacToe-v0"))
        board.draw(batch.observations)     # one text per game, as the seat to move sees it
    """

    def __init__(self, game: Game) -> None:
        state, cell = _EMPTY_BOARDS[type(game)]
        picture = game.text(state, 0)
        self._picture = np.frombuffer((picture + _END).encode("ascii"), np.uint8)
        places = np.array([match.start() for match in re.finditer(cell, picture)])
        # Added to the character of an empty cell these give X and O.
        self._own = ord("X") - self._picture[places]
        self._other = ord("O") - self._picture[places]
        # Which cell each character shows; those that show none share one that never changes.
        self._cells = np.full(len(self._picture), len(places))
        self._cells[places] = np.arange(len(places))

    def draw(self, planes: NDArray[np.uint8]) -> list[str]:
        """Return the texts of boards [N, 2, rows, columns], the viewer's stones first."""
        num_cells = len(self._own)
        own, other = planes.reshape(len(planes), 2, num_cells).transpose(1, 0, 2)
        changes = np.zeros((len(planes), num_cells + 1), np.uint8)
        changes[:, :-1] = own * self._own + other * self._other
        characters = changes.take(self._cells, axis=1)
        characters += self._picture
        return characters.tobytes().decode("ascii").split(_END)[:-1]


def can_draw(game: Game) -> bool:
    """Return whether `BoardText` knows the game."""
    return type(game) in _EMPTY_BOARDS
