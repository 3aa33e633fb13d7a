"""This package's games and OpenSpiel's through the adapter, by the public conformance check.

Every check there is, a spawned worker's too, over the default number of games.
"""

import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor

from driver import Options, answer, parse_options
from earl_envs.registry import GAMES
from earl_envs.testing import check_game
from earl_envs.testing.check import GameCheckError

OPENSPIEL_NAMES = (
    "tic_tac_toe", "connect_four", "breakthrough", "hex", "othello", "kuhn_poker", "leduc_poker",
    "liars_dice", "clobber", "pentago", "goofspiel", "matrix_rps", "pig", "backgammon",
)  # fmt: skip


def row(game_id: str) -> dict[str, object]:
    """Check one game."""
    start, findings, notes = time.perf_counter(), "", ""
    try:
        report = check_game(game_id)
        notes = "; ".join(str(note) for found in report.notes.values() for note in found)
    except GameCheckError as error:
        findings = str(error)
    return {
        "game": game_id,
        "variant": "check_game",
        "passed": not findings,
        "why": findings,
        "notes": notes,
        "check_s": time.perf_counter() - start,
    }


def rows(options: Options) -> list[dict[str, object]]:
    """Check every game, or as many of each kind as are asked for, as many at once as cores."""
    openspiel = [f"openspiel/{name}-v0" for name in OPENSPIEL_NAMES]
    chosen = [*[*GAMES][: options.num_checked], *openspiel[: options.num_checked]]
    spawn = multiprocessing.get_context("spawn")
    num_workers = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(num_workers, mp_context=spawn) as pool:
        return list(pool.map(row, chosen))


if __name__ == "__main__":
    answer("earl", "earl-envs", rows(parse_options()))
