"""The rollout stage of an asynchronous run, from its config."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from earl_trainer.asynchronous.admission import Bound
from earl_trainer.asynchronous.broadcast import (
    BroadcastPublication,
    BroadcastRules,
    Receivers,
)
from earl_trainer.asynchronous.collection import BackgroundCollection, BackgroundRules
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.asynchronous.groups import group_starts, groups_per_step
from earl_trainer.asynchronous.ledger import GroupLedger, StalenessRules
from earl_trainer.asynchronous.placement import place
from earl_trainer.asynchronous.publication import Publication, StorePublication
from earl_trainer.asynchronous.workers import Workers
from earl_trainer.config import RunConfig
from earl_trainer.experience.filter_setup import group_acceptance, run_filters
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.phases import Phase
from earl_trainer.rewards.episodes import rewards_of

# New weights come while those before may still be read.
_COPIES_IN_STORE = 4
_STORE_BYTES = 128 * 1024**2
_BROADCAST_TIMEOUT_S = 60.0
# That wait where no bound says how many may.
_QUEUED_BATCHES = 8


def make_background_collection(
    config: RunConfig,
    phase: Phase,
    *,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    capacity_tokens: int,
    num_seats: int,
    under_way: Mapping[str, Any],  # Any: plain values from JSON
    note: Callable[[str], None],
) -> BackgroundCollection:
    """Start the workers that play a phase, without weights yet.

    Args:
        config: The run.
        phase: What is played.
        model: Of the learner.
        tokenizer: Of the model.
        capacity_tokens: Context tokens that one worker may hold at once.
        num_seats: Of the game.
        under_way: What the collection of a run told that goes on.
        note: Is told in one line of lost workers.

    Raises:
        RunFailedError: If they do not start.
    """
    # Ray takes a while to import, and a synchronous run does without.
    from earl_trainer.asynchronous.pool import RolloutPool
    from earl_trainer.asynchronous.ray_placement import own_address
    from earl_trainer.asynchronous.worker import RolloutWorker
    from earl_trainer.asynchronous.worker_engine import WorkerSettings

    rules = config.asynchronous
    all_threads = torch.get_num_threads()
    placement = place(rules, num_cores=len(os.sched_getaffinity(0)))
    torch.set_num_threads(placement.learner_cores)
    settings = WorkerSettings(
        config=config,
        blueprint=Blueprint.of(model),
        tokenizer=tokenizer,
        capacity_tokens=capacity_tokens,
        num_workers=placement.num_workers,
    )
    batch_groups = groups_per_step(phase, num_seats=num_seats)
    num_bytes = sum(parameter.nbytes for parameter in model.parameters())
    pool = RolloutPool(
        placement,
        lambda worker: RolloutWorker(
            replace(settings, worker=worker, num_threads=placement.worker_cores[worker])
        ),
        address=config.selector.ray_address,
        learner_gpu=(model.device.index or 0) if model.device.type == "cuda" else None,
        store_bytes=_STORE_BYTES + _COPIES_IN_STORE * num_bytes,
    )
    filters, max_rounds = run_filters(config)
    return BackgroundCollection(
        pool,
        GroupLedger.from_dict(
            staleness_rules(config, batch_groups=batch_groups),
            under_way,
            group_acceptance(
                filters,
                partial(rewards_of, config=config.reward),
                batch_groups=batch_groups,
                max_rounds=max_rounds,
            ),
        ),
        group_starts(phase, seed=config.seed, num_seats=num_seats),
        publication=make_publication(rules, pool, pool.receivers, host=own_address()),
        rules=BackgroundRules(
            timeout_s=rules.timeout_s,
            first_version=phase.first_step,
            max_restarts=rules.max_restarts,
            publish_every=rules.publish_every_steps,
            worker_cores=placement.worker_cores,
            learner_cores=None if placement.shared else placement.learner_cores,
            has_functions=bool(config.reward.functions),
        ),
        note=note,
        on_close=lambda: torch.set_num_threads(all_threads),
    )


def staleness_rules(config: RunConfig, *, batch_groups: int) -> StalenessRules:
    """Return how far ahead a run may be.

    Args:
        config: The run.
        batch_groups: Groups of a batch.
    """
    rules = config.asynchronous
    max_queued = rules.max_queued_groups or _QUEUED_BATCHES * batch_groups
    return StalenessRules(
        batch_groups=batch_groups,
        max_staleness=config.max_staleness,
        bound=Bound(rules.bound),
        discard=rules.on_stale == "discard",
        max_running=rules.max_running_groups or None,
        max_under_way=rules.max_running_groups + max_queued if rules.bound == "none" else None,
    )


def under_way_after(num_steps: int, phase: Phase, *, num_seats: int) -> dict[str, Any]:
    """Return what a collection would tell after so many steps of a phase that took turns."""
    num_groups = num_steps * groups_per_step(phase, num_seats=num_seats)
    return {"num_consumed": num_groups, "first": num_groups}


def make_publication(
    rules: AsynchronousConfig, workers: Workers, receivers: Receivers, *, host: str
) -> Publication:
    """Choose how weights come to workers.

    Args:
        rules: Of the run.
        workers: Take them over.
        receivers: Theirs.
        host: Under which they reach this process.
    """
    if rules.publication == "store":
        return StorePublication(workers, check=rules.check_weights)
    return BroadcastPublication(
        workers,
        receivers,
        BroadcastRules(
            host=host,
            bucket_bytes=rules.bucket_bytes,
            timeout_s=min(rules.timeout_s, _BROADCAST_TIMEOUT_S),
            check=rules.check_weights,
        ),
    )
