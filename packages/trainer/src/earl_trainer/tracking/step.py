"""One finished step, and the record that is made of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from earl_dispatch import Columns
from earl_selector import ContextReport

from earl_trainer.algorithms.importance import effective_share
from earl_trainer.algorithms.losses import BEHAVIOUR_WEIGHT, BEHAVIOUR_WEIGHT_SQUARE
from earl_trainer.experience.samples import count_prefix_breaks
from earl_trainer.experience.transfer import Delivery
from earl_trainer.rewards.outcome import judgement_metrics
from earl_trainer.rollout.choice import Choice
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.tracking.metrics import (
    StageClock,
    StepRecord,
    TokenCounts,
    context_metrics,
    dispatch_metrics,
    episode_metrics,
    selector_metrics,
    switch_metrics,
)
from earl_trainer.types import EpisodeSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class StepShare:
    """What one worker has to tell of its part of a step."""

    episodes: Sequence[EpisodeSummary]
    rewards: Sequence[float | None]
    peak_resident_tokens: int
    counts: TokenCounts
    """Of its samples as they were prepared."""
    num_emitted: int
    """Tokens that an engine emitted for the episodes, those included that gave no sample."""
    num_prefix_breaks: int
    """How often a chat template rewrote what came before in an episode."""
    seconds: Mapping[str, float]
    """That it spent in each stage so far."""

    @classmethod
    def of(
        cls,
        rollout: Rollout,
        rewards: Sequence[float | None],
        columns: Columns,
        clock: StageClock,
        version: int,
    ) -> "StepShare":
        """Tell of what was played, rewarded and prepared, to be trained at a version."""
        return cls(
            episodes=rollout.summaries,
            rewards=rewards,
            peak_resident_tokens=rollout.peak_resident_tokens,
            counts=TokenCounts.of(columns, version),
            num_emitted=sum(
                token_version > NO_WEIGHTS
                for episode in rollout.episodes
                for turn in episode.turns
                for token_version in turn.versions
            ),
            num_prefix_breaks=sum(map(count_prefix_breaks, rollout.episodes)),
            seconds=dict(clock.seconds),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What came out of each stage of a step."""

    step: int
    phase: str
    lr: float
    shares: Sequence[StepShare]
    """Of every worker that told."""
    choice: Choice
    collected: Mapping[str, float]
    """Figures of the rollout stage."""
    prepared: Mapping[str, float]
    """Figures of the preparation stage."""
    delivery: Delivery
    updates: Mapping[str, float]
    """Figures of the learner."""
    clock: StageClock

    @property
    def episodes(self) -> list[EpisodeSummary]:
        """The episodes of all workers, in the order of their starts."""
        return [episode for share in self.shares for episode in share.episodes]

    @property
    def rewards(self) -> list[float | None]:
        """The reward of each episode, None where a function failed."""
        return [reward for share in self.shares for reward in share.rewards]

    def report(self) -> ContextReport | None:
        """Report to the selector the contexts of one engine, that of the fullest worker.

        There is nothing to report of a step in which nothing was played.
        """
        if not self.episodes:
            return None
        fullest = max(self.shares, key=lambda share: share.peak_resident_tokens)
        return self._report_on(fullest.episodes, fullest.peak_resident_tokens)

    def _report_on(self, episodes: Sequence[EpisodeSummary], resident_tokens: int) -> ContextReport:
        lengths = [episode.context_tokens for episode in episodes]
        switch = self.choice.switch
        # What a script played says nothing of the engine's speed.
        generated = any(share.counts.num_generated for share in self.shares)
        slowest_s = max(share.seconds["rollout"] for share in self.shares)
        # Neither do functions that rewarded the last episodes when all had been played.
        waited_s = self.collected.get("reward/wait_s", 0.0)
        return ContextReport(
            step=self.step,
            num_responses=len(lengths),
            mean_context_tokens=sum(lengths) / len(lengths),
            max_context_tokens=max(lengths),
            resident_tokens=resident_tokens,
            rollout_s=max(0.0, slowest_s - waited_s) if generated else None,
            # What a failure took, and starting anew, is no price of a change.
            switch_s=switch.switch_s if switch is not None and switch.done else None,
        )

    def record(self) -> StepRecord:
        """Gather the figures of all stages."""
        counts = TokenCounts.total([share.counts for share in self.shares])
        report, decision, switch = self.report(), self.choice.decision, self.choice.switch
        if report is not None:
            decision = decision.observe(report)
        # A stage takes as long as it takes the slowest.
        slowest = {
            stage: max(share.seconds[stage] for share in self.shares)
            for stage in self.clock.seconds
        }
        stage_tokens = {
            # What was generated in an earlier step says nothing of this one's speed.
            "rollout": counts.num_generated - int(self.prepared.get("replay/generated_tokens", 0)),
            "prepare": counts.num_tokens if counts.num_scored else 0,
            "update": counts.num_tokens,
        }
        return StepRecord(
            step=self.step,
            phase=self.phase,
            decision=decision.reason,
            decision_json=json.dumps(decision.to_dict()),
            limit_notice=decision.limit_notice,
            metrics={
                **self._played_metrics(),
                **selector_metrics(decision),
                **dispatch_metrics(self.delivery),
                **counts.metrics(),
                "tokens/generated": float(sum(share.num_emitted for share in self.shares)),
                "tokens/trained": float(counts.num_trained),
                **_update_metrics(self.updates),
                "policy/lr": self.lr,
                **replace(self.clock, seconds=slowest).metrics(stage_tokens),
                **({} if switch is None else switch_metrics(switch)),
                **self.collected,
                **self.prepared,
            },
        )

    def _played_metrics(self) -> dict[str, float]:
        """Return the figures of the episodes, if there are any."""
        if not self.episodes:
            return {}
        resident_tokens = max(share.peak_resident_tokens for share in self.shares)
        return {
            **episode_metrics(self.episodes, self.rewards),
            **judgement_metrics([
                each.judgement for each in self.episodes if each.judgement is not None
            ]),
            **context_metrics(self._report_on(self.episodes, resident_tokens)),
            "context/prefix_breaks": float(sum(share.num_prefix_breaks for share in self.shares)),
        }


def _update_metrics(updates: Mapping[str, float]) -> dict[str, float]:
    """Return the learner's figures, and the effective sample size where tokens are weighted.

    It is a share of the tokens, of the weights as the loss had them, at their level and bounded.
    """
    figures = {f"policy/{name}": value for name, value in updates.items()}
    square = figures.pop(f"policy/{BEHAVIOUR_WEIGHT_SQUARE}", None)
    if square is not None:
        figures["policy/effective_share"] = effective_share(updates[BEHAVIOUR_WEIGHT], square, 1.0)
    return figures
