"""A run's own checkpoints as opponents."""

import json
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, final

from earl_envs import RandomOpponent
from earl_envs.opponents.pool import OpponentPool, PoolMember

from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.workers.team import Team

# The pool draws and rates names; `PastModels.policy` says who replies under one.
_NOBODY = RandomOpponent()


@final
class PastModels:
    """The checkpoints of a run as a pool that grows while it trains.

    Lifecycle: `pool` before every collection, `record` after it; in between, `policy` of whoever
    was drawn. Members are the checkpoints of every `every_steps` steps that the store still keeps;
    none at first. Ratings are appended to a file by the version of the weights that played. A run
    that goes on cuts the file to its own past, once, when this is made.

    Args:
        checkpoints: Of the run.
        ratings_path: The file of ratings, a line of JSON each.
        sampling: A name of `earl_envs.opponents.pool.SAMPLINGS`.
        every_steps: A checkpoint of another step, as Ctrl-C leaves one, is no member: it would make
            the resumed run another one.
        load: Makes a policy of a model folder.
        version: Tells the version of the weights that play now.
        team: Workers whose games are rated together; the first writes the file.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        ratings_path: Path,
        *,
        sampling: str,
        every_steps: int,
        load: Callable[[Path], ReplyPolicy],
        version: Callable[[], int],
        team: Team,
    ) -> None:
        self._checkpoints = checkpoints
        self._ratings_path = ratings_path
        self._sampling = sampling
        self._every_steps = every_steps
        self._load = load
        self._version = version
        self._folders: dict[str, Path] = {}
        self._loaded: dict[str, ReplyPolicy] = {}
        self._team = team
        self._ratings = _read_past(ratings_path, version(), cut=team.is_first)

    def pool(self) -> OpponentPool | None:
        """Return the pool as it is now, or None before the first checkpoint."""
        complete = self._checkpoints.complete().items()
        steps = {path.stem: step for step, path in complete if step % self._every_steps == 0}
        self._folders = {path.stem: path for _, path in complete if path.stem in steps}
        self._loaded = {name: self._loaded[name] for name in steps if name in self._loaded}
        if not steps:
            return None
        learner = self._ratings.get("", 0.0)
        members = [
            PoolMember(
                name=name,
                opponent=_NOBODY,
                step=step,
                # A new member is as strong as the learner that it is a copy of.
                rating=self._ratings.get(name, learner),
            )
            for name, step in steps.items()
        ]
        return OpponentPool(members=members, sampling=self._sampling, learner_rating=learner)

    def policy(self, name: str) -> ReplyPolicy:
        """Return who replies as a member of the pool; its model is loaded when first asked for."""
        if name not in self._loaded:
            self._loaded[name] = self._load(self._folders[name] / "model")
        return self._loaded[name]

    def record(self, pool: OpponentPool, scores: Sequence[tuple[str, float]]) -> None:
        """Rate the members by the games of a collection; all workers that play call it.

        Args:
            pool: What `pool` returned before it.
            scores: Of this worker's games, name of the member and the learner's points: 1, 0.5 or
                0.
        """
        told = self._team.players.all_gather(scores)
        if not any(told):
            return
        for name, score in chain.from_iterable(told):
            pool = pool.update_rating(name, learner_score=score)
        ratings = {member.name: member.rating for member in pool.members}
        self._ratings = {"": float(pool.learner_rating), **ratings}
        if not self._team.is_first:
            return
        line = json.dumps({"version": self._version(), "ratings": self._ratings})
        with self._ratings_path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def _read_past(path: Path, version: int, *, cut: bool) -> dict[str, float]:
    """Return the last ratings before the weights of `version`, and drop the lines from these on.

    A last line that a killed process left incomplete is dropped as well.

    Args:
        path: The file, which need not be there.
        version: Of the weights that play now.
        cut: Whether the file is this process's to write.
    """
    ratings: dict[str, float] = {}
    if not path.is_file():
        return ratings
    num_bytes = 0
    with path.open("r+b") as file:
        for line in file:
            # Any: parsed JSON
            row: dict[str, Any] = json.loads(line) if line.endswith(b"\n") else {"version": version}
            if row["version"] >= version:
                break
            ratings = row["ratings"]
            num_bytes += len(line)
        if cut:
            file.truncate(num_bytes)
    return ratings
