"""The figures of one training step."""

import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean
from typing import final

import numpy as np
import torch
from earl_dispatch import Columns
from earl_envs import CUTS, EndReason
from earl_selector import ContextReport, Decision

from earl_trainer.experience.transfer import Delivery
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.rollout.switch import Switch
from earl_trainer.types import EpisodeSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """What is reported of one step.

    Everything but `time/`, `rate/` and the decision is the same for equal seeds on one machine.
    """

    step: int
    phase: str
    decision: str
    """Why the selector chose its degree."""
    decision_json: str
    """The whole decision, with what came of it, as one object of JSON."""
    limit_notice: str | None = None
    """That a limit is near; None if none is."""
    metrics: Mapping[str, float]


@final
@dataclass(slots=True)
class StageClock:
    """Seconds spent per stage of a step, and in the whole step since the clock was made."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    _start_s: float = field(default_factory=time.perf_counter)

    @contextmanager
    def stage(self, name: str) -> Generator[None]:
        """Add the block's wall-clock time to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def metrics(self, stage_tokens: Mapping[str, int]) -> dict[str, float]:
        """Return seconds per stage, and tokens per second for stages that process tokens."""
        times = {f"time/{name}_s": seconds for name, seconds in self.seconds.items()}
        times["time/step_s"] = time.perf_counter() - self._start_s
        rates = {
            f"rate/{name}_tokens_per_s": tokens / self.seconds[name]
            for name, tokens in stage_tokens.items()
            if tokens
        }
        return {**times, **rates}


def episode_metrics(
    episodes: Sequence[EpisodeSummary], rewards: Sequence[float | None]
) -> dict[str, float]:
    """Summarise outcomes and replies; rates are shares of the games whose episode did not fail.

    Episodes without a reward are left out of its mean and spread. What greedy decoding reaches,
    the baseline of ReMax, is told apart: all other figures are of what the policy samples.
    """
    played = [
        index
        for index, episode in enumerate(episodes)
        if not (episode.failed or episode.start.greedy)
    ]
    baselines = [
        reward
        for episode, reward in zip(episodes, rewards, strict=True)
        if episode.start.greedy and reward is not None
    ]
    games = [game for index in played for game in episodes[index].games]
    own_rewards = np.array([each for index in played if (each := rewards[index]) is not None])
    num_replies = sum(len(episodes[index].replies) for index in played)
    num_games = max(1, len(games))
    wins = sum(game.outcome > 0 for game in games)
    draws = sum(game.outcome == 0 and game.end_reason is EndReason.FINISHED for game in games)
    ended = [game.outcome for game in games if game.end_reason not in CUTS]
    return {
        "reward/mean": float(own_rewards.mean()) if len(own_rewards) else 0.0,
        "reward/std": float(own_rewards.std()) if len(own_rewards) else 0.0,
        **({"reward/greedy_mean": fmean(baselines)} if baselines else {}),
        "game/win_rate": wins / num_games,
        "game/draw_rate": draws / num_games,
        "game/loss_rate": (len(games) - wins - draws) / num_games,
        "game/outcome_mean": sum(ended) / max(1, len(ended)),
        "game/illegal_rate": sum(episodes[i].num_forfeits for i in played) / max(1, num_replies),
        "game/turns_mean": num_replies / num_games,
        "game/failed_episodes": float(sum(episode.failed for episode in episodes)),
        "game/games_per_episode": sum(episodes[i].start.num_games for i in played)
        / max(1, len(played)),
        **_cut_shares([episodes[index] for index in played]),
        **_win_rates([episodes[index] for index in played]),
        **_other_forfeit_rate([episodes[index] for index in played]),
        **{
            f"end/{reason}": float(
                sum(
                    game.end_reason is reason
                    for episode in episodes
                    if not episode.start.greedy
                    for game in episode.games
                )
            )
            for reason in EndReason
        },
    }


def _cut_shares(played: Sequence[EpisodeSummary]) -> dict[str, float]:
    """Shares of episodes cut by any token limit, in a reply or between two, and by their context's.

    The latter are those of which turns or games are missing.
    """
    num_cut = sum(episode.end_reason is EndReason.CONTEXT_LIMIT for episode in played)
    return {
        "context/truncated_share": sum(each.truncated for each in played) / max(1, len(played)),
        "context/cut_share": num_cut / max(1, len(played)),
    }


def _win_rates(played: Sequence[EpisodeSummary]) -> dict[str, float]:
    """Win rates by seat; and by place in the context where that holds several games.

    The latter is the learning curve within an episode.
    """
    wins: dict[str, list[bool]] = {}
    for episode in sorted(played, key=lambda episode: episode.start.seat):
        for place, game in enumerate(episode.games):
            wins.setdefault(f"game/win_rate_seat_{episode.start.seat}", []).append(game.outcome > 0)
            if episode.start.num_games > 1:
                wins.setdefault(f"game/win_rate_game_{place}", []).append(game.outcome > 0)
    return {name: sum(won) / len(won) for name, won in wins.items()}


def _other_forfeit_rate(played: Sequence[EpisodeSummary]) -> dict[str, float]:
    """Share of a seat's games that another seat's forfeit decided; in self-play only."""
    seats = {(episode.start.table, episode.start.seat) for episode in played}
    if len(seats) == len({table for table, _ in seats}):
        return {}
    games = [(episode.start.seat, game) for episode in played for game in episode.games]
    decided = sum(game.forfeited_by not in (None, seat) for seat, game in games)
    return {"game/other_forfeit_rate": decided / len(games)}


def context_metrics(report: ContextReport) -> dict[str, float]:
    """Return a context report as figures."""
    return {
        "context/mean_tokens": report.mean_context_tokens,
        "context/max_tokens": float(report.max_context_tokens),
        "context/resident_tokens": float(report.resident_tokens),
    }


def selector_metrics(decision: Decision) -> dict[str, float]:
    """Return a decision as figures, and what came of it, once that was observed.

    A limit that is not in sight has no figure, and neither has a prediction of no finite time. The
    first one has none either: before a rollout was timed, predictions may be in units of their own.
    """
    figures = {
        "selector/tp": float(decision.tp),
        "selector/forecast_tokens": float(decision.forecast_tokens),
        "selector/capacity_tokens": float(decision.capacity_tokens),
        "selector/queues": float(decision.queues),
        "selector/switches": float(decision.switches),
    }
    if decision.steps_to_limit is not None:
        figures["selector/steps_to_limit"] = float(decision.steps_to_limit)
    if decision.outcome is not None:
        figures["selector/queued"] = float(decision.outcome.queued)
    predicted_s = decision.predicted_s
    if decision.previous_tp is not None and predicted_s is not None and isfinite(predicted_s):
        figures["time/rollout_predicted_s"] = predicted_s
    return figures


def switch_metrics(switch: Switch) -> dict[str, float]:
    """Return what became of a change of degree; no drift where there was nothing to compare yet."""
    figures = {
        "time/switch_s": switch.switch_s,
        "selector/switch_failed": float(not switch.done),
        "selector/switch_bytes_moved": float(switch.bytes_moved),
        "selector/switch_bytes_lower_bound": float(switch.bytes_lower_bound),
    }
    if switch.drift is not None:
        figures["drift/max_logprob_difference"] = switch.drift.max_difference
        figures["drift/mean_logprob_difference"] = switch.drift.mean_difference
        figures["drift/token_mult_prob_error"] = switch.drift.token_mult_prob_error
    return figures


def dispatch_metrics(delivery: Delivery) -> dict[str, float]:
    """Return what was moved and how long it took, each beside the least that it could be.

    `bytes_lower_bound` is the least for the rows that each learner got, `bytes_minimum` the least
    for any choice of rows that gives every learner its share of each mini-batch; whole rows move,
    so that the plan may lie about a row per worker to either side of it. The floor of the time is
    that of the busiest rank, at the rate that was measured when the phase began; one worker alone
    moves nothing and has none.
    """
    plan = delivery.plan
    times = {
        "time/dispatch_transfer_s": delivery.transfer_s,
        "time/dispatch_floor_s": delivery.floor_s,
    }
    if delivery.floor_s:
        times["rate/dispatch_times_floor"] = delivery.transfer_s / delivery.floor_s
    return {
        "dispatch/rows": float(plan.source.num_rows),
        "dispatch/bytes_moved": float(plan.bytes_moved),
        "dispatch/bytes_lower_bound": float(plan.bytes_lower_bound),
        "dispatch/bytes_minimum": delivery.bytes_minimum,
        "dispatch/bytes_over_minimum": plan.bytes_moved - delivery.bytes_minimum,
        "dispatch/messages": float(plan.messages),
        **times,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCounts:
    """What a worker counted of its own samples; those of several workers add up."""

    num_tokens: int
    num_generated: int
    """Tokens that an engine emitted, and not a script, which says nothing of an engine's speed."""
    num_trained: int
    """Of these, or of a script's, that are trained."""
    num_scored: int
    """Trained tokens that an engine emitted, with a log-prob of the learner's own."""
    max_logprob_difference: float
    """Largest distance of both log-probs."""
    staleness: Mapping[int, int]
    """Updates since a trained token was emitted -> how many there are."""

    @classmethod
    def of(cls, columns: Columns, version: int) -> "TokenCounts":
        """Count the samples of one worker, to be trained at a version of the weights."""
        versions = columns.per_token["versions"]
        ages, numbers = (version - versions[versions > NO_WEIGHTS]).unique(return_counts=True)
        engine = learner = torch.empty(0)
        if "old_logprobs" in columns.per_token:
            mask = columns.per_token["mask"] & (versions > NO_WEIGHTS)
            engine = columns.per_token["rollout_logprobs"][mask]
            learner = columns.per_token["old_logprobs"][mask]
        return cls(
            num_tokens=columns.num_tokens,
            num_generated=int(numbers.sum()),
            num_trained=int(columns.per_token["mask"].sum()),
            num_scored=len(engine),
            max_logprob_difference=float((engine - learner).abs().max()) if len(engine) else 0.0,
            staleness=dict(zip(ages.tolist(), numbers.tolist(), strict=True)),
        )

    @classmethod
    def total(cls, parts: Sequence["TokenCounts"]) -> "TokenCounts":
        """Add up the counts of several workers."""
        return cls(
            num_tokens=sum(part.num_tokens for part in parts),
            num_generated=sum(part.num_generated for part in parts),
            num_trained=sum(part.num_trained for part in parts),
            num_scored=sum(part.num_scored for part in parts),
            max_logprob_difference=max(part.max_logprob_difference for part in parts),
            staleness=dict(sum((Counter(part.staleness) for part in parts), Counter[int]())),
        )

    def metrics(self) -> dict[str, float]:
        """Say how old the tokens are and how far the engine's log-probs from the learner's.

        Nothing of what no engine emitted, or the learner did not score.
        """
        figures: dict[str, float] = {}
        if self.staleness:
            updates = sum(age * number for age, number in self.staleness.items())
            figures["staleness/mean"] = updates / self.num_generated
            figures["staleness/max"] = float(max(self.staleness))
            for age, number in sorted(self.staleness.items()):
                figures[f"staleness/tokens_at_{age}"] = float(number)
        if not self.num_scored:
            return figures
        return {
            **figures,
            "mismatch/max_logprob_difference": self.max_logprob_difference,
        }
