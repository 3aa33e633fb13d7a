"""Opponents that follow a script."""

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from earl_envs.game import Game, State
from earl_envs.opponents.base import whole_number

Script = Callable[[Game, object, int, np.random.Generator], int]
"""Picks an action from the game, the state, the seat and a stream of chance."""


@final
class ScriptedOpponent:
    """Plays the first legal action of a list, or whatever a function says.

    Example:
        corners_first = ScriptedOpponent([0, 2, 6, 8, 4, 1, 3, 5, 7])
        last = ScriptedOpponent(lambda game, state, seat, rng: game.legal(state)[-1])
    """

    def __init__(self, script: Sequence[int] | Script) -> None:
        self._script = script

    @classmethod
    def from_text(cls, actions: str) -> "ScriptedOpponent":
        """Read actions such as `4,0,8`, the most wanted first."""
        return cls([
            whole_number(action, what="an action", least=0) for action in actions.split(",")
        ])

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Follow the script.

        Raises:
            ValueError: If no action of the list is legal.
        """
        if callable(self._script):
            return self._script(game, state, seat, rng)
        legal = game.legal(state)
        for action in self._script:
            if action in legal:
                return action
        raise ValueError(f"no scripted action is legal: {list(self._script)}, legal are {legal}")


@final
class FirstLegal:
    """Plays the legal action with the lowest number."""

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Return the lowest legal action."""
        return min(game.legal(state))
