"""Asynchronous runs in which some episodes take sixty times as long; every group is accounted for.

A rollout worker plays Tic-Tac-Toe with a small model at random weights, whose replies are cut after
four tokens: next to all of them lose a game at once, so that a game is as long as any other. Of
every 50 episodes one plays many games in its context, the others one. The learner is a stand-in: it
takes as long as workers compute for a batch, and moves the weights a little. One group of 50
comes back as if its game's code had failed.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from earl_envs import make_game
from earl_trainer.asynchronous.admission import Bound
from earl_trainer.asynchronous.collection import BackgroundCollection, BackgroundRules
from earl_trainer.asynchronous.ledger import GroupLedger, StalenessRules
from earl_trainer.asynchronous.publication import StorePublication
from earl_trainer.asynchronous.worker_engine import WorkerSettings
from earl_trainer.config import RolloutConfig, RunConfig
from earl_trainer.models.tiny import build_model, build_tokenizer
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.starts import grouped_starts
from earl_trainer.seeding import derive_seed
from earl_trainer.types import Episode, EpisodeStart
from local_workers import LocalWorkers, Told
from transformers import PreTrainedModel

GROUP_SIZE = 2
_SEED = 0
_ONE_IN = 50
_CONTEXT_TOKENS = 3072
"""Enough for 60 games."""
_MAX_CONTEXTS = 128
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One way to deal with what is slow."""

    label: str
    bound: Bound = Bound.ADMISSION
    eta: int = 2
    discard: bool = False
    num_workers: int = 1
    batch_groups: int = 16
    num_games: int = 60
    """Of a slow episode."""

    @property
    def rules(self) -> StalenessRules:
        """What the ledger goes by."""
        return StalenessRules(
            batch_groups=self.batch_groups,
            max_staleness=self.eta,
            bound=self.bound,
            discard=self.discard,
        )


def fails(group: int) -> bool:
    """Whether a group is one whose game's code fails."""
    return _is_drawn("fails", group)


def is_slow(episode: int) -> bool:
    """Whether an episode plays many games."""
    return _is_drawn("slow", episode)


def _is_drawn(what: str, number: int) -> bool:
    """Whether a number is the one that is drawn of its fifty."""
    return number % _ONE_IN == derive_seed(_SEED, what, number // _ONE_IN) % _ONE_IN


def episodes_of(group: int) -> range:
    """Return the numbers of a group's episodes."""
    return range(group * GROUP_SIZE, (group + 1) * GROUP_SIZE)


def plan_group(number: int, *, num_games: int) -> list[EpisodeStart]:
    """Return the episodes of a group, of which those that are slow play so many games."""
    starts = grouped_starts(
        _SEED, step=number, num_episodes=GROUP_SIZE, group_size=GROUP_SIZE, num_seats=2
    )
    return [
        replace(
            start,
            episode=episode,
            table=episode,
            group=number,
            seat=number % 2,
            num_games=num_games if is_slow(episode) else 1,
        )
        for episode, start in zip(episodes_of(number), starts, strict=True)
    ]


def make_world() -> tuple[WorkerSettings, PreTrainedModel]:
    """Make what workers are made from, and the learner's model."""
    tokenizer = build_tokenizer(make_game("earl/TicTacToe-v0"), seed=_SEED)
    model = build_model(
        tokenizer,
        hidden_size=32,
        num_layers=1,
        num_heads=2,
        max_context_tokens=_CONTEXT_TOKENS,
        seed=_SEED,
    )
    rollout = RolloutConfig(max_reply_tokens=4, max_context_tokens=_CONTEXT_TOKENS)
    settings = WorkerSettings(
        config=RunConfig(rollout=rollout),
        blueprint=Blueprint.of(model),
        tokenizer=tokenizer,
        capacity_tokens=_MAX_CONTEXTS * _CONTEXT_TOKENS,
    )
    return settings, model


@dataclass(slots=True, kw_only=True)
class Story:
    """What has happened in a run, also in one that was stopped and went on."""

    variant: Variant
    consumed: list[int] = field(default_factory=list[int])
    """Groups, in the order in which they were trained on."""
    ages: Counter[int] = field(default_factory=Counter[int])
    """Tokens trained on, by the number of versions that they were old."""
    told: dict[int, Told] = field(default_factory=dict[int, Told])
    """Groups that came back."""
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the collection told when the run ended."""
    num_ticks: int = 0
    num_out_of_balance: int = 0
    """Ticks at which the ledger was not balanced, or did not agree with the workers."""
    num_dropped: int = 0
    num_again: int = 0
    """Groups that were under way when a worker was lost or the run stopped."""
    room_after_recovery: int | None = None
    """Groups that the rule would have let start and that were not, at the first tick after it."""
    seconds: float = 0.0

    def train(self, step: int, episodes: Sequence[Episode]) -> None:
        """Note a batch."""
        self.consumed += [episode.start.group for episode in episodes[::GROUP_SIZE]]
        self.ages.update(
            step - version
            for episode in episodes
            for turn in episode.turns
            for version in turn.versions
        )

    def tick(self, step: int, ledger: GroupLedger, workers: LocalWorkers) -> None:
        """Compare the counts with what workers have, what came back, and what was trained on."""
        counts = ledger.counts
        playing = sum(map(len, workers.playing.values()))
        consumed_before = int(self.kept.get("num_consumed", 0))
        under_rule = counts.running + counts.accepted - counts.dropped
        room = (step + self.variant.eta + 1) * self.variant.batch_groups - under_rule
        agrees = (
            counts.balanced
            and counts.submitted == consumed_before + playing + len(workers.told)
            and counts.running == playing
            and counts.rejected == sum(map(fails, workers.told))
            and counts.consumed == len(set(self.consumed))
            and room >= 0
        )
        self.num_ticks += 1
        self.num_out_of_balance += not agrees
        if self.num_again and self.room_after_recovery is None:
            self.room_after_recovery = room

    def end(self, kept: Mapping[str, Any], *, ledger: GroupLedger, workers: LocalWorkers) -> None:
        """Note what there is when the run ends, or stops for now."""
        self.kept = json.loads(json.dumps(kept))
        self.told |= workers.told
        self.num_dropped += ledger.counts.dropped

    @property
    def decided(self) -> list[int]:
        """Groups that were trained on or dropped; others failed or are under way."""
        under_way = set(self.kept["again"])
        return [each for each in self.told if each not in under_way and not fails(each)]

    @property
    def num_lost(self) -> int:
        """Groups started that are not under way and were not trained on, rejected or dropped."""
        known = {*self.consumed, *self.kept["again"], *filter(fails, self.told)}
        return len(set(range(self.kept["first"])) - known) - self.num_dropped

    @property
    def num_twice(self) -> int:
        """How often a group was trained on that had been before."""
        return len(self.consumed) - len(set(self.consumed))


def play(story: Story, steps: range, *, lose_at: int | None = None) -> None:
    """Make a run, or go on with one that was stopped.

    Args:
        story: What has happened so far; it is continued.
        steps: To make.
        lose_at: The step from which on the first worker is lost, once it has groups.
    """
    settings, model = make_world()
    variant, rng = story.variant, torch.Generator().manual_seed(steps.start)
    workers = LocalWorkers(settings, variant.num_workers, fails=fails)
    ledger = GroupLedger.from_dict(variant.rules, story.kept)
    collection = BackgroundCollection(
        workers,
        ledger,
        lambda number: plan_group(number, num_games=variant.num_games),
        publication=StorePublication(workers),
        rules=BackgroundRules(
            timeout_s=_TIMEOUT_S, max_restarts=1, worker_cores=(1,) * variant.num_workers
        ),
        note=lambda text: None,
    )
    story.num_again = len(story.kept.get("again", ()))

    def on_turn(step: int) -> None:
        story.tick(step, ledger, workers)
        if lose_at is not None and step >= lose_at and not story.num_again and workers.playing[0]:
            story.num_again = workers.lose(0)

    start_s = time.monotonic()
    try:
        collection.publish(model, steps.start)
        for step in steps:
            rollout = collection.collect(
                RolloutRequest(step=step, on_turn=lambda text, step=step: on_turn(step))
            )
            story.train(step, rollout.episodes)
            story.tick(step, ledger, workers)
            workers.watch(variant.batch_groups * workers.seconds_per_group)
            _move(model, rng)
            collection.publish(model, step + 1)
        story.seconds += time.monotonic() - start_s
        story.end(collection.to_dict(), ledger=ledger, workers=workers)
    finally:
        collection.close()


def play_alone(groups: Sequence[int], *, num_games: int) -> dict[int, Told]:
    """Let a worker play groups one after the other."""
    settings, model = make_world()
    workers = LocalWorkers(settings, 1, fails=fails)
    try:
        StorePublication(workers).publish(model, 0, [0])
        for number in groups:
            workers.grant(0, [(number, plan_group(number, num_games=num_games))])
            workers.take([0], _TIMEOUT_S)
        return workers.told
    finally:
        workers.close()


@torch.no_grad()
def _move(model: PreTrainedModel, rng: torch.Generator) -> None:
    for parameter in model.parameters():
        parameter.add_(1e-3 * torch.randn(parameter.shape, generator=rng))
