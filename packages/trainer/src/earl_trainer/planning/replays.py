"""AReaL's published throughput beside that of its simulated pipeline."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, final

from earl_trainer.planning.areal import (
    TABLE_1_DEVICES,
    TABLE_1_ETA,
    TABLE_1_HOURS,
    TABLE_2_TOKENS_PER_S,
    TABLE_7_MAX_TOKENS,
    TABLE_7_TOKENS_PER_S,
    areal_model,
)
from earl_trainer.planning.calibration import FITTED_ETAS
from earl_trainer.planning.figures import PipelineFigures
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.thinning import simulate_thinned

_SCALING_DEVICES: Final = (128, 256, 512)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """One published throughput."""

    eta: float | int
    figures: PipelineFigures
    published_tokens_per_s: float
    fitted: bool
    """Whether constants were fitted to it; it predicts nothing then."""

    @property
    def error(self) -> float:
        """Return by which part the simulated rate exceeds the published one."""
        return self.figures.trained_tokens_per_s / self.published_tokens_per_s - 1


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Speedup:
    """How much faster an asynchronous run is than both ways of running synchronously."""

    name: str
    num_devices: int
    over_same_split: float
    """Devices keep their roles at eta = 0: half of them always wait."""
    over_all_devices: float
    """All devices generate and then all train, as synchronous systems mostly do."""
    published: float | None


def replay_table_2(*, num_steps: int, seed: int) -> tuple[Replay, ...]:
    """Simulate the 1.5B model on 128 devices at every eta of table 2."""
    return _replay(areal_model(), TABLE_2_TOKENS_PER_S, FITTED_ETAS, num_steps, seed)


def replay_table_7(*, num_steps: int, seed: int) -> tuple[Replay, ...]:
    """Simulate the 1.5B model on 8 devices with sequences of at most 8k tokens (table 7).

    One constant is read anew, the speed of training, from the largest eta: two devices train twice
    as fast for each as 32 did. The paper does not say which batch this run has; it is taken to be
    that of the others. It is several times what is in flight, so that a quarter of the steps do.
    """
    model = areal_model(num_devices=8, max_tokens=TABLE_7_MAX_TOKENS)
    fitted_eta = max(TABLE_7_TOKENS_PER_S)
    step_s = model.batch_tokens / TABLE_7_TOKENS_PER_S[fitted_eta] - model.publication_s
    training_s_per_token = step_s * model.num_training_devices / model.batch_tokens
    fitted = replace(model, training_s_per_token=training_s_per_token)
    few_steps = max(2, num_steps // 4)
    return _replay(fitted, TABLE_7_TOKENS_PER_S, (fitted_eta,), few_steps, seed)


def replay_table_1(*, num_steps: int, seed: int) -> tuple[Speedup, ...]:
    """Simulate how much shorter AReaL's runs of 250 steps are than synchronous ones (table 1)."""
    return tuple(
        measure_speedup(
            name,
            num_devices=TABLE_1_DEVICES[name],
            published=synchronous_hours / asynchronous_hours,
            num_steps=num_steps,
            seed=seed,
        )
        for name, (synchronous_hours, asynchronous_hours) in TABLE_1_HOURS.items()
    )


def replay_scaling(*, num_steps: int, seed: int) -> tuple[Speedup, ...]:
    """Simulate two models on up to 512 devices, the batch staying the same (strong scaling).

    The paper has one figure in words, `MAX_SCALING_SPEEDUP`, and a plot without numbers.
    """
    return tuple(
        measure_speedup(
            name, num_devices=num_devices, published=None, num_steps=num_steps, seed=seed
        )
        for name in TABLE_1_HOURS
        for num_devices in _SCALING_DEVICES
    )


def measure_speedup(
    name: str, *, num_devices: int, published: float | None, num_steps: int, seed: int
) -> Speedup:
    """Simulate a model on so many devices, the batch staying the same."""
    model = areal_model(name, num_devices=num_devices)
    fast, slow, shared = (
        simulate_thinned(each, eta, num_steps, seed).trained_tokens_per_s
        for each, eta in ((model, TABLE_1_ETA), (model, 0), (share_devices(model), 0))
    )
    return Speedup(
        name=name,
        num_devices=num_devices,
        over_same_split=fast / slow,
        over_all_devices=fast / shared,
        published=published,
    )


def share_devices(model: PipelineModel) -> PipelineModel:
    """Return the pipeline whose devices all generate and all train; it means something at eta 0."""
    num_devices = model.num_rollout_devices + model.num_training_devices
    return replace(model, num_rollout_devices=num_devices, num_training_devices=num_devices)


def _replay(
    model: PipelineModel,
    published: Mapping[float | int, float],
    fitted: tuple[float | int, ...],
    num_steps: int,
    seed: int,
) -> tuple[Replay, ...]:
    return tuple(
        Replay(
            eta=eta,
            figures=simulate_thinned(model, eta, num_steps, seed),
            published_tokens_per_s=tokens_per_s,
            fitted=eta in fitted,
        )
        for eta, tokens_per_s in published.items()
    )
