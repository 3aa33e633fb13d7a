"""Which games have compiled rules; asked without loading a compiler."""

from earl_envs.game import Game
from earl_envs.games.connect_four import ConnectFour
from earl_envs.games.othello import Othello
from earl_envs.games.tic_tac_toe import TicTacToe


def kernel_name(game: Game) -> str | None:
    """Return the module of `earl_envs.kernels` with the compiled rules of a game, if there is one.

    Connect Four has one for its usual size only. A subclass has none, as it may change the rules.
    """
    kind = type(game)
    if kind is TicTacToe:
        return "tic_tac_toe"
    if is_usual_connect_four(game):
        return "connect_four"
    return "othello" if kind is Othello else None


def is_usual_connect_four(game: Game) -> bool:
    """Return whether this is Connect Four with seven columns, six rows and lines of four."""
    if type(game) is not ConnectFour:
        return False
    return (game.rows, game.columns, game.connect) == (6, 7, 4)
