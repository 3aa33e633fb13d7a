"""Episodes to training samples: which tokens stand in one row and which of them are trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from earl_dispatch import Columns

from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.types import Episode, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One row: tokens that the model saw and emitted, in order, with nothing encoded again."""

    episode: int
    """Index of its episode in the rollout."""
    token_ids: Sequence[int]
    emitted: Sequence[bool]
    """True exactly at the tokens that the engine emitted."""
    logprobs: Sequence[float]
    """Rollout log-probs, 0 at other tokens."""
    versions: Sequence[int]
    """Weight versions, `NO_WEIGHTS` at other tokens."""


def split_into_samples(episode_index: int, episode: Episode) -> list[Sample]:
    """Lay an episode's turns out as rows.

    A turn whose prompt begins with all earlier tokens extends the row; a turn whose prompt does not
    (a chat template rewrote the history) starts a new one, so that every token is trained in the
    context it was sampled in, and once.
    """
    samples: list[Sample] = []
    run: list[Turn] = []
    for turn in episode.turns:
        if run and not _extends(run[-1], turn):
            samples.append(_sample(episode_index, run))
            run = []
        run.append(turn)
    if run:
        samples.append(_sample(episode_index, run))
    return samples


def count_prefix_breaks(episode: Episode) -> int:
    """Return how often a chat template rewrote the context that came before.

    Each is a row more, whose beginning is computed again.
    """
    return sum(
        not _extends(earlier, later)
        for earlier, later in zip(episode.turns, episode.turns[1:], strict=False)
    )


def _extends(earlier: Turn, later: Turn) -> bool:
    seen = [*earlier.prompt_ids, *earlier.reply_ids]
    return list(later.prompt_ids[: len(seen)]) == seen


def _sample(episode_index: int, turns: Sequence[Turn]) -> Sample:
    token_ids: list[int] = []
    emitted: list[bool] = []
    logprobs: list[float] = []
    versions: list[int] = []
    for turn in turns:
        num_new = len(turn.prompt_ids) - len(token_ids)
        token_ids.extend(turn.prompt_ids[len(token_ids) :])
        emitted.extend([False] * num_new)
        logprobs.extend([0.0] * num_new)
        versions.extend([NO_WEIGHTS] * num_new)
        token_ids.extend(turn.reply_ids)
        emitted.extend([True] * len(turn.reply_ids))
        logprobs.extend(turn.logprobs)
        versions.extend(turn.versions)
    assert len(token_ids) == len(emitted) == len(logprobs) == len(versions)
    return Sample(
        episode=episode_index,
        token_ids=token_ids,
        emitted=emitted,
        logprobs=logprobs,
        versions=versions,
    )


def build_columns(episodes: Sequence[Episode], config: RewardConfig) -> Columns:
    """Build the ragged columns that the rest of the step works on.

    Failed episodes give no rows, as they say nothing about the policy, and neither do those without
    a reward, nor those that a filter dropped, nor greedy ones, which are baselines.

    Args:
        episodes: [E].
        config: With `truncation` at "mask", tokens of truncated episodes are in no loss.

    Returns:
        Per token `token_ids`, `mask` (trained), `rollout_logprobs`, `versions`; per row `episode`,
        its identity.
    """
    summaries = [episode.summary for episode in episodes]
    samples = [
        sample
        for index, episode in enumerate(episodes)
        if summaries[index].trainable and not (episode.start.greedy or episode.dropped_by)
        for sample in split_into_samples(index, episode)
    ]
    masked = [
        config.truncation == "mask" and summaries[sample.episode].truncated for sample in samples
    ]
    return Columns(
        lengths=torch.tensor([len(sample.token_ids) for sample in samples], dtype=torch.int64),
        per_token={
            "token_ids": _flat([sample.token_ids for sample in samples], torch.int32),
            "mask": _flat(
                [
                    [False] * len(sample.emitted) if hidden else sample.emitted
                    for sample, hidden in zip(samples, masked, strict=True)
                ],
                torch.bool,
            ),
            "rollout_logprobs": _flat([sample.logprobs for sample in samples], torch.float32),
            "versions": _flat([sample.versions for sample in samples], torch.int32),
        },
        per_row={
            "episode": torch.tensor(
                [episodes[sample.episode].start.episode for sample in samples], dtype=torch.int32
            ),
        },
    )


def add_staleness(columns: Columns, version: int) -> Columns:
    """Say of every token how many updates ago it was emitted, 0 where no engine emitted it.

    Args:
        columns: With `versions` per token.
        version: Of the weights that the samples are trained with first.
    """
    versions = columns.per_token["versions"]
    staleness = torch.where(versions > NO_WEIGHTS, version - versions, 0).float()
    return replace(columns, per_token={**columns.per_token, "staleness": staleness})


def _flat(parts: Sequence[Sequence[float | int]], dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([value for part in parts for value in part], dtype=dtype)
