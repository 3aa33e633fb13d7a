"""What a simulated run comes to."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import final

from earl_trainer.planning.model import PipelineModel


@final
@dataclass(slots=True, kw_only=True)
class Totals:
    """Sums over the part of a run that counts; the simulation adds to them."""

    elapsed_s: float = 0.0
    trained_tokens: int = 0
    generated_tokens: float = 0.0
    training_s: float = 0.0
    in_flight_s: float = 0.0
    """Over all sequences, how long each was in flight."""
    idle_device_s: float = 0.0
    """Over all rollout devices, how long each had nothing in flight or waited for weights."""
    staleness: Counter[int] = field(default_factory=Counter[int])
    """Staleness -> groups trained at it."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFigures:
    """Rates, staleness and idle time of a pipeline."""

    trained_tokens_per_s: float
    """The effective throughput: tokens that training used, per second of everything."""
    generated_tokens_per_s: float
    staleness: Mapping[int, int]
    """Version trained at minus version submitted at -> groups; of its oldest token, therefore."""
    rollout_idle_share: float
    """Of the time of rollout devices, that with no sequence in flight or at publication."""
    training_idle_share: float
    """Of the time of training devices, that without a batch: waiting, or at publication."""
    sequences_per_device: float
    """In flight on a rollout device, on average over time."""

    @property
    def mean_staleness(self) -> float:
        """Return the mean over groups."""
        return sum(age * count for age, count in self.staleness.items()) / sum(
            self.staleness.values()
        )

    @property
    def max_staleness(self) -> int:
        """Return that of the stalest group."""
        return max(self.staleness)


def make_figures(model: PipelineModel, totals: Totals) -> PipelineFigures:
    """Divide the sums by the time that they took."""
    elapsed_s = totals.elapsed_s
    return PipelineFigures(
        trained_tokens_per_s=totals.trained_tokens / elapsed_s,
        generated_tokens_per_s=totals.generated_tokens / elapsed_s,
        staleness=MappingProxyType(dict(sorted(totals.staleness.items()))),
        rollout_idle_share=totals.idle_device_s / (elapsed_s * model.num_rollout_devices),
        training_idle_share=1 - totals.training_s / elapsed_s,
        sequences_per_device=totals.in_flight_s / (elapsed_s * model.num_rollout_devices),
    )
