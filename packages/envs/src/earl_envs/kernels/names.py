"""Which games have compiled rules; asked without loading a compiler."""

from earl_envs.game import Game
from earl_envs.games.connect_four import ConnectFour
from earl_envs.games.othello import Othello
from earl_envs.games.tic_tac_toe import TicTacToe


def kernel_name(game: Game) -> str | None:
    """Return the module of `earl_envs.kernels` with the compiled rules of a game, if there is one.

    Connect Four has one for its usual size only.
    """
    if isinstance(game, TicTacToe):
        return "tic_tac_toe"
    if isinstance(game, ConnectFour) and (game.rows, game.columns, game.connect) == (6, 7, 4):
        return "connect_four"
    return "othello" if isinstance(game, Othello) else None
