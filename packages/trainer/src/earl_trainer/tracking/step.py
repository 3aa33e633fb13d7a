"""One finished step, and the record that is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from earl_dispatch import Columns, TransferPlan
from earl_selector import ContextReport, Decision

from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.tracking.metrics import (
    StageClock,
    StepRecord,
    context_metrics,
    dispatch_metrics,
    engine_mismatch_metrics,
    episode_metrics,
    selector_metrics,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOutcome:
    """What came out of each stage of a step."""

    step: int
    phase: str
    lr: float
    rollout: Rollout
    rewards: Sequence[float]
    columns: Columns
    """The samples as they were prepared."""
    decision: Decision
    plan: TransferPlan
    updates: Mapping[str, float]
    """Figures of the learner."""
    clock: StageClock

    def report(self) -> ContextReport:
        """Report the rollout's contexts to the selector."""
        lengths = [episode.context_tokens for episode in self.rollout.episodes]
        return ContextReport(
            step=self.step,
            num_responses=len(lengths),
            mean_context_tokens=sum(lengths) / len(lengths),
            max_context_tokens=max(lengths),
            resident_tokens=self.rollout.peak_resident_tokens,
        )

    def record(self) -> StepRecord:
        """Gather the figures of all stages."""
        tokens = self.columns.num_tokens
        # Replies that a script wrote down say nothing about the speed of an engine.
        generated = int((self.columns.per_token["versions"] > NO_WEIGHTS).sum())
        stage_tokens = {
            "rollout": generated,
            "prepare": tokens if "old_logprobs" in self.columns.per_token else 0,
            "update": tokens,
        }
        return StepRecord(
            step=self.step,
            phase=self.phase,
            decision=self.decision.reason,
            metrics={
                **episode_metrics(self.rollout.episodes, self.rewards),
                **context_metrics(self.report()),
                **selector_metrics(self.decision),
                **dispatch_metrics(self.plan),
                **engine_mismatch_metrics(self.columns),
                **{f"policy/{name}": value for name, value in self.updates.items()},
                "policy/lr": self.lr,
                **self.clock.metrics(stage_tokens),
            },
        )
