"""What is wrong with a game, and where."""

from dataclasses import dataclass
from typing import final

_MAX_SHOWN_MOVES = 40
_MAX_SHOWN_CHARS = 240


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A rule that a game breaks, and the position where it does.

    `replay(make_game(game_id), finding.seed, finding.moves)[-1]` is that position.
    """

    wrong: str
    """The rule and what the game did instead, one line."""
    seed: int | None = None
    """The seed of the game that shows it; None where the fault belongs to no position."""
    moves: tuple[int, ...] = ()
    """The moves from the start to the position."""
    board: str = ""
    """What the game shows of the position."""

    def __str__(self) -> str:
        if self.seed is None:
            return self.wrong
        moves = f"moves {list(self.moves)}"
        if len(self.moves) > _MAX_SHOWN_MOVES:
            shown = ", ".join(map(str, self.moves[:_MAX_SHOWN_MOVES]))
            moves = f"{len(self.moves)} moves [{shown}, ...]"
        board = " / ".join(self.board.split("\n"))
        if len(board) > _MAX_SHOWN_CHARS:
            board = board[:_MAX_SHOWN_CHARS] + "..."
        return f"{self.wrong}\n    at seed {self.seed}, {moves}: {board}"
