"""New weights on their way to workers: through Ray's object store, and by broadcast.

    python tools/bench_async.py --only publication [--quick --out FILE]

The workers are those of an asynchronous run, with nothing to play. Both ways have their turn in
every round. Timed is how long the process that learns is held up, and how long it takes until all
workers generate with the new weights.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch
from bench_section import Row, Section
from benchmarking import Figure
from earl_envs import make_game
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.asynchronous.placement import AsyncPlacement
from earl_trainer.asynchronous.pool import RolloutPool
from earl_trainer.asynchronous.publication import Publication
from earl_trainer.asynchronous.ray_placement import own_address
from earl_trainer.asynchronous.setup import make_publication
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.worker_engine import WorkerSettings
from earl_trainer.config import RunConfig
from earl_trainer.models.tiny import build_model, build_tokenizer
from earl_trainer.parallel.blueprint import Blueprint
from torch import nn

WAYS = ("store", "broadcast")
_CONTEXT_TOKENS = 256
_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    hidden_size: int
    num_layers: int
    num_rounds: int
    """That count; one before them does not."""
    num_workers: Sequence[int]
    bucket_bytes: int


FULL = Size(
    hidden_size=512, num_layers=8, num_rounds=9, num_workers=(1, 2), bucket_bytes=16 * 1024**2
)
QUICK = Size(hidden_size=64, num_layers=2, num_rounds=1, num_workers=(1,), bucket_bytes=64 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """One publication."""

    held_up_s: float
    """The process that learns."""
    in_use_s: float
    """Until every worker had acknowledged."""


def publish_in_turn(
    pool: RolloutPool, ways: Mapping[str, Publication], model: nn.Module, num_rounds: int
) -> dict[str, list[Took]]:
    """Publish in every way in each of some rounds, after one that does not count."""
    took: dict[str, list[Took]] = {name: [] for name in ways}
    version = 0
    for number in range(1 + num_rounds):
        for name, publication in ways.items():
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(1e-3)
            version += 1
            start_s = time.perf_counter()
            publication.publish(model, version, range(pool.num_workers))
            held_up_s = time.perf_counter() - start_s
            while pool.wait_for_weights(1.0):
                if time.perf_counter() - start_s > _TIMEOUT_S:
                    raise TimeoutError(f"version {version} was not taken over by {name}")
            if number:
                took[name].append(Took(held_up_s=held_up_s, in_use_s=time.perf_counter() - start_s))
    return took


def make_ways(pool: RolloutPool, size: Size, *, check: bool = False) -> dict[str, Publication]:
    """Make every way of publishing to the workers of a pool."""
    return {
        name: make_publication(
            AsynchronousConfig(
                publication=name, bucket_bytes=size.bucket_bytes, check_weights=check
            ),
            pool,
            pool.receivers,
            host=own_address(),
        )
        for name in WAYS
    }


def measure_workers(size: Size, num_workers: int) -> list[Row]:
    """Start so many workers and publish to them, with checksums in one round at the end."""
    tokenizer = build_tokenizer(make_game("earl/TicTacToe-v0"), seed=0)
    model = build_model(
        tokenizer,
        hidden_size=size.hidden_size,
        num_layers=size.num_layers,
        num_heads=8,
        max_context_tokens=_CONTEXT_TOKENS,
        seed=0,
    )
    num_bytes = sum(parameter.nbytes for parameter in model.parameters())
    settings = WorkerSettings(
        config=RunConfig(),
        blueprint=Blueprint.of(model),
        tokenizer=tokenizer,
        capacity_tokens=_CONTEXT_TOKENS,
    )
    pool = RolloutPool(
        AsyncPlacement(learner_cores=1, worker_cores=(1,) * num_workers),
        lambda worker: RolloutWorker(settings),
        store_bytes=128 * 1024**2 + 6 * num_bytes,
    )
    try:
        took = publish_in_turn(pool, make_ways(pool, size), model, size.num_rounds)
        publish_in_turn(pool, make_ways(pool, size, check=True), model, 0)
    finally:
        pool.close()
    return make_rows(took, num_workers=num_workers, num_bytes=num_bytes)


def make_rows(took: Mapping[str, Sequence[Took]], *, num_workers: int, num_bytes: int) -> list[Row]:
    """Write down every way."""
    return [
        {
            "way": name,
            "workers": num_workers,
            "bytes": num_bytes,
            "held_up_s": median(each.held_up_s for each in all_took),
            "in_use_s": median(each.in_use_s for each in all_took),
            "seconds": [each.in_use_s for each in all_took],
        }
        for name, all_took in took.items()
    ]


def make_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Name the medians."""
    figures: dict[str, Figure] = {}
    for row in rows:
        name = f"{row['way']}_to_{row['workers']}"
        for what in ("held_up", "in_use"):
            figures[f"{name}_{what}"] = Figure(
                value=float(str(row[f"{what}_s"])), unit="s", goal=""
            )
    return figures


def measure(quick: bool) -> Section:
    """Measure with every number of workers."""
    size = QUICK if quick else FULL
    rows = [row for number in size.num_workers for row in measure_workers(size, number)]
    return Section(figures=make_figures(rows), rows=rows)
