"""What is wrong with a game, and where."""

import re
from dataclasses import dataclass
from typing import final

_MAX_SHOWN_MOVES = 40
_MAX_SHOWN_CHARS = 240
_MAX_CHARS_OF_WRONG = 600
_VALUES = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


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
    is_note: bool = False
    """Whether it only says what a check could not decide; the game passes."""

    @property
    def kind(self) -> str:
        """The rule without numbers and quotations: what findings of one fault have in common."""
        return _VALUES.sub("#", self.wrong)

    def __str__(self) -> str:
        wrong = _cut(self.wrong, _MAX_CHARS_OF_WRONG)
        if self.seed is None:
            return wrong
        moves = f"moves {list(self.moves)}"
        if len(self.moves) > _MAX_SHOWN_MOVES:
            shown = ", ".join(map(str, self.moves[:_MAX_SHOWN_MOVES]))
            moves = f"{len(self.moves)} moves [{shown}, ...]"
        board = _cut(" / ".join(self.board.split("\n")), _MAX_SHOWN_CHARS)
        return f"{wrong}\n    at seed {self.seed}, {moves}: {board}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "..."
