"""The stage between preparation and learning: from rewards of episodes to advantages of tokens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from earl_dispatch import Columns
from jaxtyping import Float
from torch import Tensor

from earl_trainer.algorithms.advantages import Scores, divide_by_group_std, update_baselines
from earl_trainer.algorithms.normalisation import whiten
from earl_trainer.algorithms.settings import AdvantageSettings
from earl_trainer.algorithms.table import Algorithm
from earl_trainer.algorithms.trajectories import Trajectories
from earl_trainer.experience.mismatch import mismatch_figures
from earl_trainer.experience.reply_rewards import compare_replies, place_rewards
from earl_trainer.experience.trained_tokens import TrainedTokens
from earl_trainer.types import EpisodeStart, EpisodeSummary, RunFailedError
from earl_trainer.workers.group import ALONE, Group


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fact:
    """What workers tell one another of an episode."""

    start: EpisodeStart
    truncated: bool
    reward: float
    """Shaped."""
    of_replies: Sequence[float]
    """What of it belongs to each reply, shaped; empty where nothing does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What an episode's reward came to."""

    score: float
    """Against its baseline."""
    of_replies: Sequence[float]
    """What of it belongs to each reply; empty where nothing does."""
    group: int
    """Number of the group and seat."""
    truncated: bool


@final
class Estimator:
    """Adds to prepared samples what the loss weighs their tokens by.

    Per token `advantages`, and `returns`, what the critic should have expected, where there is one;
    per row `group_tokens`, the trained tokens of its group. Workers tell one another rewards,
    counts and sums, never tokens.

    What a step leaves behind for the next, running baselines and the weight of the KL penalty, is
    the same on all workers, and is saved with the run.

    Args:
        algorithm: Compares, and looks along trajectories.
        settings: Its constants.
        num_seats: Of the game.
        workers: Whose episodes are compared.

    Example:
        >>> columns = estimator.estimate(columns, rollout.summaries, rewards)
    """

    def __init__(
        self,
        algorithm: Algorithm,
        settings: AdvantageSettings,
        *,
        num_seats: int,
        workers: Group = ALONE,
    ) -> None:
        self._algorithm = algorithm
        self._settings = settings
        self._workers = workers
        self._baselines = torch.zeros(num_seats)
        self._kl_coefficient = settings.penalty.coefficient
        self.figures: dict[str, float] = {}
        """Of the latest step."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what the next step depends on."""
        return {"baselines": self._baselines.tolist(), "kl_coefficient": self._kl_coefficient}

    def restore(self, values: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Go on from what `to_dict` returned, or begin anew where there is nothing."""
        if values:
            self._baselines = torch.tensor(values["baselines"])
            self._kl_coefficient = values["kl_coefficient"]

    def estimate(
        self,
        columns: Columns,
        episodes: Sequence[EpisodeSummary],
        rewards: Sequence[float | None],
        of_replies: Sequence[Sequence[float]] = (),
    ) -> Columns:
        """Estimate the advantage of every trained token.

        What of a reward belongs to a reply stands on the reply's last token, the rest on the last
        one of the episode. Scaling, bounding and comparing act on both alike, so that they add up
        to the episode's score.

        Failed episodes count in no statistic, nor do those without a turn: another seat's forfeit
        came before the first reply. Nor do those without a reward, as a function failed.

        Args:
            columns: Of these episodes, with `old_logprobs`, `reference_logprobs` and `values` per
                token and `last_values` per row as far as the algorithm looks at them.
            episodes: [E] of this worker.
            rewards: [E].
            of_replies: [E] of [replies], contained in the rewards and on their scale; an episode
                may have none, and with nothing here none has any.

        Raises:
            RunFailedError: If no worker has an episode to train on; says why the first one failed.
        """
        verdicts = self._judge(episodes, rewards, of_replies or [()] * len(episodes))
        trained = TrainedTokens.of(columns)
        own = [verdicts[number] for number in trained.episodes.tolist()]
        self.figures = mismatch_figures(columns, self._add_up)
        penalties = self._penalise(columns, trained)
        scores = torch.tensor([each.score for each in own])
        placed = place_rewards(scores, [each.of_replies for each in own], trained)
        steps = Trajectories(
            rewards=placed - penalties,
            values=trained.to_steps(_column(columns, "values")),
            last_values=self._last_values(columns, trained, own),
            log_ratios=trained.to_steps(_log_ratios(columns)),
            turns=trained.turns,
            mask=trained.mask,
        )
        estimates = self._algorithm.along(steps, self._settings.discounts)
        advantages = trained.to_tokens(estimates.advantages)
        if self._settings.normalisation == "batch":
            advantages[trained.places] = whiten(advantages[trained.places], self._add_up)
        estimated = {"advantages": advantages}
        if self._algorithm.needs_critic:
            estimated["returns"] = trained.to_tokens(estimates.returns)
        return replace(
            columns,
            per_token={**columns.per_token, **estimated},
            per_row={
                **columns.per_row,
                "group_tokens": self._group_tokens(trained, own)[trained.of_rows],
            },
        )

    def _judge(
        self,
        episodes: Sequence[EpisodeSummary],
        rewards: Sequence[float | None],
        of_replies: Sequence[Sequence[float]],
    ) -> dict[int, _Verdict]:
        """Compare the rewards of all workers; return this one's episodes by their numbers.

        Seats of one group are compared apart. In self-play the seats' rewards of a zero-sum game
        cancel out, so that a common mean would say nothing, and the edge of moving first would
        count as skill: the role-conditioned baseline of SPIRAL (Liu et al., arXiv:2506.24119), over
        the group instead of a running mean.
        """
        own = [
            self._fact(episode, reward, parts)
            for episode, reward, parts in zip(episodes, rewards, of_replies, strict=True)
            if episode.trainable and reward is not None
        ]
        told = self._workers.all_gather(own)
        facts = [fact for part in told for fact in part]
        if not facts:
            raise RunFailedError(_nothing_played(episodes))
        roles = [(fact.start.group, fact.start.seat) for fact in facts]
        number = {role: place for place, role in enumerate(dict.fromkeys(roles))}
        scores = Scores(
            rewards=torch.tensor([fact.reward for fact in facts], dtype=torch.float32),
            groups=torch.tensor([number[role] for role in roles]),
            seats=torch.tensor([seat for _, seat in roles]),
            greedy=torch.tensor([fact.start.greedy for fact in facts]),
            baselines=self._baselines,
        )
        self._baselines = update_baselines(
            self._baselines, scores, decay=self._settings.baseline_decay
        )
        scores = replace(scores, baselines=self._baselines)

        def compare(rewards: Float[Tensor, " episodes"]) -> Float[Tensor, " episodes"]:
            compared = self._algorithm.baseline(replace(scores, rewards=rewards))
            if self._settings.normalisation == "group":
                return divide_by_group_std(compared, scores)
            return compared

        compared = compare(scores.rewards).tolist()
        parts = compare_replies([fact.of_replies for fact in facts], compare)
        first = sum(map(len, told[: self._workers.rank]))
        return {
            fact.start.episode: _Verdict(
                score=compared[place],
                of_replies=parts[place],
                group=number[roles[place]],
                truncated=fact.truncated,
            )
            for place, fact in enumerate(own, start=first)
        }

    def _fact(self, episode: EpisodeSummary, reward: float, parts: Sequence[float]) -> _Fact:
        shaping = self._settings.shaping
        factor = shaping.factor(reward)
        return _Fact(
            start=episode.start,
            truncated=episode.truncated,
            reward=shaping.shape(reward, context_tokens=episode.context_tokens),
            of_replies=[factor * part for part in parts],
        )

    def _penalise(
        self, columns: Columns, trained: TrainedTokens
    ) -> Float[Tensor, "episodes steps"]:
        """Return what the KL divergence takes off each token's reward, and adapt its weight."""
        penalty = self._settings.penalty
        if not penalty.coefficient:
            return torch.zeros(trained.mask.shape)
        policy = columns.per_token.get("old_logprobs", columns.per_token["rollout_logprobs"])
        divergence = penalty.estimate(policy, columns.per_token["reference_logprobs"])
        total, count = self._add_up([
            float(divergence[trained.places].double().sum()),
            float(len(trained.places)),
        ])
        weight, mean = self._kl_coefficient, total / max(1.0, count)
        self.figures |= {"advantage/reference_kl": mean, "advantage/kl_coefficient": weight}
        self._kl_coefficient = penalty.controller.next_weight(
            weight, divergence=mean, num_tokens=int(count)
        )
        return weight * trained.to_steps(divergence)

    def _last_values(
        self, columns: Columns, trained: TrainedTokens, own: Sequence[_Verdict]
    ) -> Float[Tensor, " episodes"]:
        if not self._settings.bootstraps:
            return torch.zeros(len(own))
        cut = torch.tensor([each.truncated for each in own], dtype=torch.bool)
        return torch.where(cut, trained.last_of_rows(columns.per_row["last_values"]), 0.0)

    def _group_tokens(
        self, trained: TrainedTokens, own: Sequence[_Verdict]
    ) -> Float[Tensor, " episodes"]:
        """Count the trained tokens of each episode's group, wherever they are."""
        counts: dict[int, int] = {}
        for verdict, count in zip(own, trained.mask.sum(1).tolist(), strict=True):
            counts[verdict.group] = counts.get(verdict.group, 0) + count
        parts = self._workers.all_gather(counts)
        return torch.tensor(
            [float(sum(part.get(each.group, 0) for part in parts)) for each in own],
            dtype=torch.float32,
        )

    def _add_up(self, values: list[float]) -> list[float]:
        return [sum(parts) for parts in zip(*self._workers.all_gather(values), strict=True)]


@final
class Untouched:
    """The stage of samples that are learned from as they are: no reward, nothing to compare."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return nothing: one step does not depend on another."""
        return {}

    def restore(self, values: Mapping[str, Any]) -> None:  # Any: parsed JSON
        """Do nothing, likewise."""

    def estimate(
        self,
        columns: Columns,
        episodes: Sequence[EpisodeSummary],
        rewards: Sequence[float | None],
        of_replies: Sequence[Sequence[float]] = (),
    ) -> Columns:
        """Return the samples."""
        del episodes, rewards, of_replies
        return columns


def _column(columns: Columns, name: str) -> Float[Tensor, " tokens"]:
    return columns.per_token.get(name, torch.zeros(columns.num_tokens))


def _log_ratios(columns: Columns) -> Float[Tensor, " tokens"]:
    """log(policy before the update / policy that emitted the token), 0 where nobody computed it."""
    recorded = columns.per_token["rollout_logprobs"]
    return columns.per_token.get("old_logprobs", recorded) - recorded


def _nothing_played(episodes: Sequence[EpisodeSummary]) -> str:
    if not episodes:
        return "no worker has an episode to train on"
    first = episodes[0]
    failed = "" if first.judgement is None else first.judgement.detail
    return (
        f"none of {len(episodes)} episodes gave anything to train on; the first ended with "
        f"{first.end_reason}: {failed or first.detail}"
    )
