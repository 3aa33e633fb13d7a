"""Episodes to training samples: which tokens stand in one row and which of them are trained."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from earl_dispatch import Columns

from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.types import Episode, EpisodeSummary, Turn


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


def rewards_of(episodes: Sequence[EpisodeSummary], config: RewardConfig) -> list[float | None]:
    """Reward each episode for the learner's seat: the games' outcome, less a penalty for forfeits.

    The penalty makes a reply that is no move worse than a lost game, which it otherwise equals.
    Outcome and penalty are means over the games that the episode was to have. What the run's own
    functions say is added. Episodes cut by a token limit get 0 if `config.truncation` says so.

    Returns:
        [E], None where a function has failed and the episode is not to be trained on.
    """
    return [_reward_of(episode, config) for episode in episodes]


def _reward_of(episode: EpisodeSummary, config: RewardConfig) -> float | None:
    judgement = episode.judgement
    if judgement is not None and judgement.bonus is None:
        return None
    if episode.truncated and config.truncation == "zero":
        return 0.0
    penalty = config.illegal_penalty * episode.num_forfeits / episode.start.num_games
    reward = config.game_weight * (episode.outcome - penalty)
    return reward if judgement is None or judgement.bonus is None else reward + judgement.bonus


def reply_rewards_of(
    episodes: Sequence[EpisodeSummary], config: RewardConfig
) -> list[Sequence[float]]:
    """Return what of each episode's reward belongs to one of its replies.

    Returns:
        [E] of [replies]; empty where functions speak of the whole episode only, or `truncation` has
        put 0 in the place of what they say.
    """
    return [
        ()
        if episode.judgement is None or (episode.truncated and config.truncation == "zero")
        else episode.judgement.parts
        for episode in episodes
    ]


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
