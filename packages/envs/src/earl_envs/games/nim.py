"""Nim with any heaps; whoever takes the last stone wins.

Rules and theory are C. L. Bouton's: Nim, a Game with a Complete Mathematical Theory, Annals of
Mathematics 3, 1901.
"""

from collections.abc import Sequence
from functools import reduce
from operator import xor
from typing import final

import numpy as np
from numpy.typing import NDArray

from earl_envs.game import Game

Heaps = tuple[tuple[int, ...], int]
"""Stones left in every heap, and the seat to move."""

_MAX_HEAPS = 26  # heaps are letters


@final
class Nim(Game[Heaps]):
    """Take any number of stones from one heap, in turn.

    Perfect play wins for seat 0 unless the heaps' sizes have the exclusive or 0 (Bouton 1901).
    """

    num_seats = 2

    def __init__(self, *, heaps: Sequence[int] = (1, 3, 5, 7)) -> None:
        if not 1 <= len(heaps) <= _MAX_HEAPS or min(heaps) < 1:
            raise ValueError(f"heaps must be 1 to {_MAX_HEAPS} sizes >= 1, got {list(heaps)}")
        self.heaps = tuple(heaps)
        self._largest = max(heaps)
        self.num_actions = len(heaps) * self._largest
        self.max_moves = sum(heaps)
        self.solved_value = (1.0, -1.0) if reduce(xor, heaps) else (-1.0, 1.0)

    def initial(self, rng: np.random.Generator) -> Heaps:
        """Return the full heaps."""
        return (self.heaps, 0)

    def seat(self, state: Heaps) -> int:
        """Return 0 and 1 in turn."""
        return state[1]

    def legal(self, state: Heaps) -> list[int]:
        """Return largest heap * heap + stones taken - 1 per move, none once the game is over."""
        return [
            heap * self._largest + taken
            for heap, stones in enumerate(state[0])
            for taken in range(stones)
        ]

    def apply(self, state: Heaps, action: int) -> Heaps:
        """Take stones from a heap."""
        heap, taken = divmod(action, self._largest)
        heaps = list(state[0])
        heaps[heap] -= taken + 1
        return (tuple(heaps), 1 - state[1])

    def returns(self, state: Heaps) -> tuple[float, float] | None:
        """Score 1 for the seat that took the last stone and -1 for the opponent."""
        if any(state[0]):
            return None
        return (-1.0, 1.0) if state[1] == 0 else (1.0, -1.0)

    def text(self, state: Heaps, seat: int) -> str:
        """List the heaps by letter with their stones."""
        return " ".join(f"{_letter(heap)}:{stones}" for heap, stones in enumerate(state[0]))

    def move_name(self, state: Heaps, action: int) -> str:
        """Name the heap and how many stones are taken from it, such as `[b2]`."""
        heap, taken = divmod(action, self._largest)
        return f"[{_letter(heap)}{taken + 1}]"

    def planes(self, state: Heaps, seat: int) -> NDArray[np.uint8]:
        """Return one plane with a row per heap and a one per stone."""
        heaps = np.array(state[0])[:, None]
        return (np.arange(self._largest) < heaps).astype(np.uint8)[None]

    def rules(self) -> str:
        """Explain aim, heaps and reply."""
        return (
            "Nim. Each heap has a letter and a number of stones. You and your opponent take turns "
            "to take one or more stones from one heap. Whoever takes the last stone of all wins. "
            "Reply with the heap and how many to take in square brackets, such as [a1]."
        )


def _letter(heap: int) -> str:
    return chr(ord("a") + heap)
