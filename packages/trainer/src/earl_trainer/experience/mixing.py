"""A step's rows: those that were just played, and some of earlier steps or of other runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol, final, runtime_checkable

import numpy as np
import torch
from earl_dispatch import Columns
from transformers import PreTrainedTokenizerBase

from earl_trainer.experience.config import ExperienceConfig
from earl_trainer.experience.replay import Drawn, Replay, ReplayRules, read_rows, row_bytes
from earl_trainer.models.vocabulary import vocabulary_digest
from earl_trainer.seeding import derive_seed

REPLAY_FILE: Final = "replay.pt"
"""In a checkpoint: what is held."""


@runtime_checkable
class Experience(Protocol):
    """What is trained on besides what was just played.

    Lifecycle: `mix` in every step, which changes nothing; `commit` when the step is complete.
    """

    @property
    def figures(self) -> Mapping[str, float]:
        """What there is to report of the last step."""
        ...

    def mix(self, columns: Columns, step: int) -> Columns:
        """Return a step's rows.

        Args:
            columns: That were just played and prepared.
            step: Of the run, which is also the version of the learner's weights.
        """
        ...

    def commit(self) -> None:
        """Remember the rows of the last `mix`: the step is complete."""
        ...

    def save(self, folder: Path) -> None:
        """Write what a run that goes on needs to know into its checkpoint."""
        ...


@final
class FreshOnly:
    """Trains on what was just played."""

    figures: Mapping[str, float] = {}

    def mix(self, columns: Columns, step: int) -> Columns:
        """Return the columns."""
        del step
        return columns

    def commit(self) -> None:
        """Do nothing: there is nothing to remember."""

    def save(self, folder: Path) -> None:
        """Do nothing, likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What `commit` has to do."""

    fresh: Columns
    replayed: Drawn | None
    version: int


@final
class MixedExperience:
    """Adds rows of earlier steps, and of another run, to those that were just prepared.

    Of F fresh rows and shares r and o, F r / (1 - r - o) rows are drawn from the replay and F o /
    (1 - r - o) from the offline rows, rounded, and never more than there are. All keep the
    log-probs and versions of the weights that emitted them, so that the algorithm's correction
    treats them as rows that generation ahead of learning has left; drawn rows are prepared again,
    with this step's weights. The advantages of a drawn row are multiplied by its
    importance weight w, which weighs its surrogate: min(r w A, clip(r) w A) = w min(r A, clip(r) A)
    as w > 0. A KL term is not weighed.

    Args:
        replay: Of earlier steps.
        offline: Of another run, which never changes.
        config: The shares.
        prepare: The preparation stage.
        seed: Of the run.
        origin: Is written beside the rows, for other runs.
        progress: From a step to the share of the run that is done by then, from 0 to 1.
    """

    def __init__(
        self,
        replay: Replay,
        offline: Replay | None,
        config: ExperienceConfig,
        prepare: Callable[[Columns], Columns],
        *,
        seed: int,
        origin: Mapping[str, str],
        progress: Callable[[int], float],
    ) -> None:
        self._replay = replay
        self._offline = offline
        self._config = config
        self._prepare = prepare
        self._seed = seed
        self._origin = origin
        self._progress = progress
        self._pending: _Step | None = None
        self.figures: Mapping[str, float] = {}

    def mix(self, columns: Columns, step: int) -> Columns:
        """Draw rows and put them behind the fresh ones."""
        config, progress = self._config, self._progress(step)
        per_fresh = 1.0 / (1.0 - config.replay_share - config.offline_share)
        replayed = self._replay.draw(
            round(columns.num_rows * config.replay_share * per_fresh),
            np.random.default_rng(derive_seed(self._seed, "replay", step)),
            progress=progress,
        )
        offline = None
        if self._offline is not None:
            offline = self._offline.draw(
                round(columns.num_rows * config.offline_share * per_fresh),
                np.random.default_rng(derive_seed(self._seed, "offline", step)),
            )
        self._pending = _Step(fresh=columns, replayed=replayed, version=step)
        mixed = [
            columns,
            *(
                _like(columns, self._prepare(_weighted(drawn)))
                for drawn in (replayed, offline)
                if drawn is not None
            ),
        ]
        self.figures = {
            "replay/rows": float(0 if replayed is None else replayed.columns.num_rows),
            "replay/offline_rows": float(0 if offline is None else offline.columns.num_rows),
            "replay/generated_tokens": float(sum(part.num_tokens for part in mixed[1:])),
            "replay/held_rows": float(self._replay.num_rows),
            "replay/held_bytes": float(self._replay.num_bytes),
            "replay/mean_weight": 1.0 if replayed is None else float(replayed.weights.mean()),
            "replay/importance_exponent": self._replay.importance_exponent(progress),
        }
        return Columns.concat(mixed)

    def commit(self) -> None:
        """Give drawn rows their own priority, remember the fresh ones, forget what is too old."""
        if self._pending is None:
            return
        if self._pending.replayed is not None:
            self._replay.settle(self._pending.replayed)
        if self._config.replay_share > 0.0:
            self._replay.add(self._pending.fresh)
            self._replay.expire(self._pending.version + 1)
        self._pending = None

    def save(self, folder: Path) -> None:
        """Write the replay; the offline rows are where they were."""
        self._replay.save(folder / REPLAY_FILE, origin=self._origin)


def make_experience(
    config: ExperienceConfig,
    prepare: Callable[[Columns], Columns],
    *,
    seed: int,
    origin: Mapping[str, str],
    progress: Callable[[int], float],
    resumed_from: Path | None,
) -> Experience:
    """Make what a run's reinforcement learning is mixed with.

    Args:
        config: Of the run.
        prepare: The preparation stage, for rows that are drawn.
        seed: Of the run.
        origin: What the run's rows are, for other runs (`rows_origin`).
        progress: From a step to the share of the run that is done by then, from 0 to 1.
        resumed_from: The checkpoint of a run that goes on inside the phase.

    Raises:
        ValueError: If a file does not hold what it should.
    """
    if not config.reuses:
        return FreshOnly()
    rules = replay_rules(config)
    resumes = resumed_from is not None
    replay = Replay.load(resumed_from / REPLAY_FILE, rules) if resumes else Replay(rules)
    offline = read_offline(Path(config.offline_path)) if config.offline_share else None
    return MixedExperience(
        replay, offline, config, prepare, seed=seed, origin=origin, progress=progress
    )


def replay_rules(config: ExperienceConfig) -> ReplayRules:
    """Return the rules of a run's replay."""
    prioritised = config.replay == "prioritised"
    return ReplayRules(
        max_rows=config.replay_rows,
        max_bytes=config.replay_bytes,
        priority_exponent=config.priority_exponent if prioritised else 0.0,
        importance_exponent=config.importance_exponent if prioritised else 0.0,
        max_staleness=config.replay_max_staleness or None,
    )


def read_offline(path: Path) -> Replay:
    """Read rows that another run has left, all as likely to be drawn.

    They count as emitted by this run's first weights, as those of the other run have no version
    here.

    Raises:
        ValueError: If the file holds no rows.
    """
    rows = read_rows(path)
    versions = rows.per_token["versions"].clamp(max=0)
    rows = replace(rows, per_token={**rows.per_token, "versions": versions})
    replay = Replay(ReplayRules(max_rows=rows.num_rows, max_bytes=int(row_bytes(rows).sum())))
    replay.add(rows)
    return replay


def rows_origin(game_id: str, tokenizer: PreTrainedTokenizerBase) -> dict[str, str]:
    """Return what runs have to share so that one can learn from rows of the other."""
    return {"game": game_id, "vocabulary": vocabulary_digest(tokenizer)}


def _like(fresh: Columns, rows: Columns) -> Columns:
    """Leave out what fresh rows do not have: another run's algorithm may have needed more."""
    return replace(
        rows,
        per_token={name: rows.per_token[name] for name in fresh.per_token},
        per_row={name: rows.per_row[name] for name in fresh.per_row},
    )


def _weighted(drawn: Drawn) -> Columns:
    columns = drawn.columns
    weights = torch.from_numpy(drawn.weights).float().repeat_interleave(columns.lengths)
    scaled = {"advantages": columns.per_token["advantages"] * weights}
    return replace(columns, per_token={**columns.per_token, **scaled})
