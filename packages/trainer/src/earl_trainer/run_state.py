"""Where a run stands between two steps."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from earl_selector import ContextReport, SelectorState

from earl_trainer.evaluation.checkup import CheckupHistory
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.guards.panel import PanelState
from earl_trainer.guards.reward_normaliser import RewardStatistics


@dataclass(slots=True, kw_only=True)
class RunState:
    """Where a run stands between two steps; a resume needs this, the weights and the optimizer."""

    step: int
    """The next step."""
    selector: SelectorState
    report: ContextReport | None
    """Contexts of the last step's rollout."""
    collection: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """Of the episodes that are under way."""
    preparation: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """What the preparation stage chooses its degree from."""
    estimation: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """What advantages are estimated from besides a step's own episodes."""
    evaluations: dict[str, tuple[int, MatchResult]] = field(
        default_factory=dict[str, tuple[int, MatchResult]]
    )
    """Name of a match -> the step it was played before, and its result."""
    guards: PanelState = field(default_factory=PanelState)
    """What guards have seen."""
    rewards: RewardStatistics = field(default_factory=RewardStatistics)
    """Of reinforcement learning, where rewards are normalised."""
    checkups: CheckupHistory = field(default_factory=CheckupHistory)

    def to_dict(self) -> dict[str, Any]:  # Any: nested plain values for JSON
        """Return the state as plain values."""
        return {
            "step": self.step,
            "selector": self.selector.to_dict(),
            "report": None if self.report is None else asdict(self.report),
            "collection": self.collection,
            "preparation": self.preparation,
            "estimation": self.estimation,
            "evaluations": {
                name: {"step": step, "result": result.to_dict()}
                for name, (step, result) in self.evaluations.items()
            },
            "guards": self.guards.to_dict(),
            "rewards": asdict(self.rewards),
            "checkups": self.checkups.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":  # Any: parsed JSON
        """Rebuild a state from what `to_dict` returned."""
        report = values["report"]
        return cls(
            step=values["step"],
            selector=SelectorState.from_dict(values["selector"]),
            report=None if report is None else ContextReport(**report),
            collection=values.get("collection", {}),
            preparation=values.get("preparation", {}),
            estimation=values.get("estimation", {}),
            evaluations={
                name: (entry["step"], MatchResult(**entry["result"]))
                for name, entry in values["evaluations"].items()
            },
            guards=PanelState.from_dict(values["guards"]),
            rewards=RewardStatistics(**values["rewards"]),
            checkups=CheckupHistory.from_dict(values["checkups"]),
        )
