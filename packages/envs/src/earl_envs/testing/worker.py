"""Check that a worker process knows the game and plays it to the same states."""

import pickle
import subprocess
import sys
from collections.abc import Iterator

from earl_envs.boundary import Failure, attempt
from earl_envs.position import Position
from earl_envs.record import GameRecord
from earl_envs.registry import is_local_game
from earl_envs.testing.context import Context
from earl_envs.testing.finding import Finding

_TIMEOUT_S = 120


def spawn_worker(context: Context) -> Iterator[Finding]:
    """A spawned process, which has run no code of the user's, makes the game and replays it.

    It is an interpreter of its own rather than one of `multiprocessing`, which would run the
    script that asks for the check once more. A game that was registered as a class is noted.
    """
    if is_local_game(context.game_id):
        wrong = (
            "not decided: registered as a class, a game is known to this process only; workers "
            "know one registered as 'module:Class' or by its package's entry point"
        )
        yield Finding(wrong=wrong, is_note=True)
        return
    play = context.plays[0]
    record = GameRecord(
        game_id=context.game_id, params=context.params, seed=play.seed, moves=play.moves
    )
    reached = attempt(_replay_elsewhere, record.to_json())
    if isinstance(reached, Failure):
        yield Finding(wrong=f"a spawned process cannot play the game: {reached.error}")
    elif reached != play.positions[-1]:
        wrong = f"a spawned process comes to another state: {reached.state!r}"
        yield play.visit(len(play.moves)).finding(wrong)


def answer_replay() -> None:
    """Replay the record of standard input and write where it ends as the last line."""
    line = sys.stdin.read()
    sys.stdout.write(f"\n{pickle.dumps(attempt(_replay, line)).hex()}\n")


def _replay_elsewhere(line: str) -> Position | Failure:
    code = f"import sys; sys.path[:] = {sys.path!r}; import {__name__} as w; w.answer_replay()"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        input=line,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if ended.returncode:
        raise RuntimeError(ended.stderr.strip().rpartition("\n")[2])
    return pickle.loads(bytes.fromhex(ended.stdout.split("\n")[-2]))


def _replay(line: str) -> Position:
    return GameRecord.from_json(line).positions()[-1]
