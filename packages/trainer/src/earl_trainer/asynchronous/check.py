"""Rules of a run whose generation goes on while it learns."""

import os

from earl_trainer.asynchronous.placement import place
from earl_trainer.config import PAST_MODELS, RunConfig
from earl_trainer.experience.filter_setup import run_filters
from earl_trainer.experience.filters import ZERO_VARIANCE


def check_asynchronous(config: RunConfig, *, num_seats: int) -> None:
    """Refuse what workers that generate cannot do, or what could never fill a batch.

    Raises:
        ValueError: With the rule and the value.
    """
    way = (
        f"max_staleness {config.max_staleness}, asynchronous.bound {config.asynchronous.bound} and "
        f"asynchronous.always {config.asynchronous.always}"
    )
    for name, value, needed, why in (
        ("rollout.overflow", config.rollout.overflow, "queue", "contexts come and go"),
        ("selector.num_devices", config.selector.num_devices, 1, "each worker is one rank"),
        ("rollout_workers", config.rollout_workers, 1, "asynchronous.num_workers generate"),
        ("learner_workers", config.learner_workers, 1, "one process learns"),
    ):
        if value != needed:
            raise ValueError(f"with {way}, {name} must be {needed}, as {why}; got {value}")
    if config.opponent in PAST_MODELS:
        raise ValueError(
            f"past models are played by the process that learns: opponent must be another with "
            f"{way}, got {config.opponent}"
        )
    if (
        config.asynchronous.bound != "none"
        and config.asynchronous.publish_every_steps > config.max_staleness + 1
    ):
        raise ValueError(
            "batches of max_staleness + 1 updates are played with one version: "
            "asynchronous.publish_every_steps must be at most that, got "
            f"{config.asynchronous.publish_every_steps} and max_staleness = {config.max_staleness}"
        )
    _check_filters(config)
    _check_room(config, num_seats=num_seats)


def _check_filters(config: RunConfig) -> None:
    scorers = [*config.reward.models, *([config.judge.url] if config.judge.url else [])]
    if scorers and ZERO_VARIANCE in run_filters(config)[0].names:
        raise ValueError(
            "groups that are played ahead are filtered before reward.models or judge.url score "
            f"them: {ZERO_VARIANCE}, of experience.filters or the algorithm "
            f"{config.algorithm.name}, needs rewards without them or max_staleness 0, got "
            f"{', '.join(scorers)}"
        )


def _check_room(config: RunConfig, *, num_seats: int) -> None:
    rules = config.asynchronous
    max_running, max_queued = rules.max_running_groups, rules.max_queued_groups
    num_workers, batch_groups = _num_workers(config), _batch_groups(config, num_seats=num_seats)
    if rules.bound == "none" and not max_running:
        raise ValueError(
            "asynchronous.bound none starts asynchronous.max_running_groups groups, which must be "
            f">= 1, got {max_running}"
        )
    if max_running and max_running < num_workers:
        raise ValueError(
            "every worker plays a group: asynchronous.max_running_groups must be >= "
            f"asynchronous.num_workers, got {max_running} and {num_workers}"
        )
    if rules.bound != "none" and max_queued:
        raise ValueError(
            f"asynchronous.bound {rules.bound} limits how many groups wait by max_staleness: "
            f"asynchronous.max_queued_groups must be 0, got {max_queued}"
        )
    if 0 < max_queued < batch_groups:
        raise ValueError(
            "a batch waits until it is complete: asynchronous.max_queued_groups must be >= its "
            f"{batch_groups} groups, got {max_queued}"
        )


def note_unused_staleness(config: RunConfig, *, num_seats: int) -> str | None:
    """Say that too few groups may run at once to be as far ahead as is allowed."""
    max_running = config.asynchronous.max_running_groups
    if not config.is_asynchronous or config.asynchronous.bound == "none" or not max_running:
        return None
    allowed = _num_allowed(config, num_seats=num_seats)
    if max_running >= allowed:
        return None
    return (
        f"max_staleness {config.max_staleness} lets {allowed} groups be under way, of which "
        f"asynchronous.max_running_groups = {max_running} run at once"
    )


def note_idle_workers(config: RunConfig, *, num_seats: int) -> str | None:
    """Say that there are more workers than groups that may be under way."""
    if not config.is_asynchronous or config.asynchronous.bound == "none":
        return None
    allowed, num_workers = _num_allowed(config, num_seats=num_seats), _num_workers(config)
    if num_workers <= allowed:
        return None
    return (
        f"max_staleness {config.max_staleness} lets {allowed} groups be under way, so that "
        f"{num_workers - allowed} of the {num_workers} workers always have none"
    )


def _num_allowed(config: RunConfig, *, num_seats: int) -> int:
    return (config.max_staleness + 1) * _batch_groups(config, num_seats=num_seats)


def _batch_groups(config: RunConfig, *, num_seats: int) -> int:
    seats = num_seats if config.self_play else 1
    return config.rollout.num_episodes // (config.rollout.group_size * seats)


def _num_workers(config: RunConfig) -> int:
    return place(config.asynchronous, num_cores=len(os.sched_getaffinity(0))).num_workers
