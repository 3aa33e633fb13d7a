"""TextArena: observation text and step, with its default wrappers and without any."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import textarena
from driver import Run, Workload, drive

Legal = Callable[[Any], list[str]]


def _tic_tac_toe(state: dict[str, Any]) -> list[str]:
    board = state["board"]
    return [f"[{3 * r + c}]" for r in range(3) for c in range(3) if board[r][c] == ""]


def _connect_four(state: dict[str, Any]) -> list[str]:
    return [f"[col {column}]" for column, cell in enumerate(state["board"][0]) if cell == "."]


def _othello(state: dict[str, Any]) -> list[str]:
    return [f"[{row}, {column}]" for row, column in state["valid_moves"]] or ["skip"]


GAMES: dict[str, tuple[str, Legal]] = {
    "tic_tac_toe": ("TicTacToe-v0", _tic_tac_toe),
    "connect_four": ("ConnectFour-v0", _connect_four),
    "othello": ("Othello-v0", _othello),
}


def loop(env_id: str, legal_replies: Legal) -> Run:
    """Play one game a move per call, each game in an environment of its own.

    The wrappers keep the text of earlier games after a reset, so that one environment would slow
    down from game to game.
    """
    draw = random.Random(0).random
    env: Any = None

    def run(num_calls: int) -> int:
        nonlocal env
        for _ in range(num_calls):
            if env is None:
                env = textarena.make(env_id)
                env.reset(num_players=2)
            env.get_observation()
            replies = legal_replies(env.state.game_state)
            done, _ = env.step(replies[int(draw() * len(replies))])
            if done:
                env = None
        return num_calls

    return run


def workloads(game: str, batch: int) -> Iterator[Workload]:
    """List what is measured; it has no batches, so that one game stands for all."""
    if game not in GAMES or batch > 1:
        return
    env_id, legal_replies = GAMES[game]
    for variant, suffix in (("default wrappers", ""), ("no wrappers", "-raw")):
        yield Workload(
            game=game,
            batch=1,
            variant=variant,
            observed=True,
            make=lambda suffix=suffix: loop(env_id + suffix, legal_replies),
        )


if __name__ == "__main__":
    drive("textarena", "textarena", workloads)
