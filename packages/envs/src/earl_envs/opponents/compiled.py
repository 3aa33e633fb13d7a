"""Which searches have a compiled kernel."""

from functools import cache

from earl_envs.game import Game
from earl_envs.games.connect_four import ConnectFour


def is_usual_connect_four(game: Game) -> bool:
    """Return whether this is Connect Four with seven columns, six rows and lines of four."""
    return isinstance(game, ConnectFour) and (game.rows, game.columns, game.connect) == (6, 7, 4)


@cache
def has_numba() -> bool:
    """Return whether kernels can be compiled: numba comes with `earl-envs[fast]`."""
    try:
        import numba as _  # noqa: F401
    except ImportError:
        return False
    return True
