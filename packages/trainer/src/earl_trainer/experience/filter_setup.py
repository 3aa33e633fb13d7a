"""The filters of a run around its rollout stage."""

from collections.abc import Callable

from earl_trainer.algorithms.shaping import RewardShaping
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.asynchronous.admission import GroupCounts
from earl_trainer.asynchronous.ledger import FinishedGroup
from earl_trainer.config import RunConfig
from earl_trainer.experience.config import FilterName
from earl_trainer.experience.filtered_collection import (
    FilteredCollection,
    RewardFunction,
    later_round,
)
from earl_trainer.experience.filters import (
    ZERO_VARIANCE,
    FilterRules,
    drop,
    facts_of,
    kept_groups,
)
from earl_trainer.phases import Phase
from earl_trainer.rollout.collection import Collection
from earl_trainer.seeding import derive_seed
from earl_trainer.workers.group import Group


def run_filters(config: RunConfig) -> tuple[FilterRules, int]:
    """Return the filters of a run, and how often groups are played at most.

    What the configuration leaves open is the algorithm's: DAPO's dynamic sampling (Yu et al.,
    arXiv:2503.14476, section 3.2) drops groups without variance and plays others.
    """
    rules, own_rounds = config.experience, ALGORITHMS[config.algorithm.name].varied_group_rounds
    own_names: tuple[FilterName, ...] = (ZERO_VARIANCE,) if own_rounds else ()
    names: list[FilterName] = []
    for each in rules.filters:
        if each == "auto":
            names += own_names
        else:
            names.append(each)
    rounds = own_rounds if ZERO_VARIANCE in names else 1
    return (
        FilterRules(
            names=tuple(names),
            min_tokens=rules.min_tokens,
            max_tokens=rules.max_tokens,
            shaping=RewardShaping(
                scale=config.advantage.reward_scale, max_abs=config.advantage.reward_clip
            ),
        ),
        rules.max_rounds or rounds or 1,
    )


def filter_collection(
    collection: Collection,
    config: RunConfig,
    phase: Phase,
    rewards: RewardFunction,
    workers: Group,
    *,
    num_seats: int,
) -> Collection:
    """Put the run's filters around a rollout stage, if it has any.

    Args:
        collection: Plays the phase; one that plays in the background replaces groups itself, by
            `group_acceptance`.
        config: The run.
        phase: Says what is played.
        rewards: Of episodes.
        workers: Who collect together.
        num_seats: Of the game.
    """
    rules, max_rounds = run_filters(config)
    if not rules.names:
        return collection
    return FilteredCollection(
        collection,
        rules,
        rewards,
        workers,
        starts=lambda step, number: later_round(
            phase.starts(derive_seed(config.seed, "round", number), step, num_seats=num_seats),
            number,
        ),
        max_rounds=max_rounds,
    )


def group_acceptance(
    rules: FilterRules, rewards: RewardFunction, *, batch_groups: int, max_rounds: int
) -> Callable[[FinishedGroup, GroupCounts], bool]:
    """Return which groups that were played in the background are trained on.

    A group of which filters would leave nothing is rejected, so that its place is given to another.
    On average at most `max_rounds` groups are played for each that is trained on: with B groups of
    a batch, none is rejected for its filters once (max_rounds - 1) (accepted + B) have been.

    Args:
        rules: The filters.
        rewards: Of episodes.
        batch_groups: B.
        max_rounds: Of the run.
    """

    def accepts(group: FinishedGroup, counts: GroupCounts) -> bool:
        if not group.trainable:
            return False
        if counts.rejected >= (max_rounds - 1) * (counts.accepted + batch_groups):
            return True
        summaries = [episode.summary for episode in group.episodes]
        facts = [
            facts_of(episode, reward, rules)
            for episode, reward in zip(group.episodes, rewards(summaries), strict=True)
        ]
        return bool(kept_groups(facts, drop(facts, rules)))

    return accepts
