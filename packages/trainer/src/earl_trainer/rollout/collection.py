"""Where the episodes of a step come from: played now, or played all the while."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Protocol, final, runtime_checkable

from torch import nn

from earl_trainer.phases import Phase
from earl_trainer.rewards.judge import Judge
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.types import Episode, EpisodeStart
from earl_trainer.workers.team import Team


def _say_nothing(progress: str) -> None:
    del progress


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest:
    """What a rollout stage is asked for."""

    step: int
    """Of the run, which is also the version of the learner's weights."""
    share_tokens: int | None = None
    """Length at which every context is cut for want of memory, if any."""
    max_responses: int | None = None
    """Most contexts at once, if there is such a bound."""
    starts: Sequence[EpisodeStart] | None = None
    """Further episodes of the step, of all workers; None asks for the phase's own."""
    on_turn: Callable[[str], None] = _say_nothing
    """Is told in a few words how far it is."""


@runtime_checkable
class Collection(Protocol):
    """The rollout stage of a phase."""

    @property
    def takes_starts(self) -> bool:
        """Whether it plays further episodes of a step when it is asked to."""
        ...

    @property
    def figures(self) -> Mapping[str, float]:
        """What there is to report of the last step's rollout besides its episodes."""
        ...

    def collect(self, request: RolloutRequest) -> Rollout:
        """Return the episodes of a step, waiting for them if need be."""
        ...

    def publish(self, model: nn.Module, version: int) -> None:
        """Tell whoever generates elsewhere of new weights."""
        ...

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what a run that goes on needs to know of the episodes under way."""
        ...

    def close(self) -> None:
        """End what plays; a second time does nothing."""
        ...


@runtime_checkable
class EpisodePlayer(Protocol):
    """Plays episodes when it is asked to, as a `Collector` does."""

    def collect(
        self,
        policy: ReplyPolicy,
        starts: Sequence[EpisodeStart],
        *,
        share_tokens: int | None = None,
        on_turn: Callable[[int], None] = ...,
        on_episode: Callable[[Episode], None] | None = None,
    ) -> Rollout:
        """Play one episode per start to its end."""
        ...


@final
class InlineCollection:
    """Plays a step's episodes when they are asked for, with the run's own engine.

    Args:
        collector: Plays.
        phase: Says what and who.
        team: Whose share this worker plays.
        seed: Of the run.
        num_seats: Of the game.
        judge: Rewards episodes by functions while others are played; closed with this.
    """

    def __init__(
        self,
        collector: EpisodePlayer,
        phase: Phase,
        team: Team,
        *,
        seed: int,
        num_seats: int,
        judge: Judge | None = None,
    ) -> None:
        self._collector = collector
        self._phase = phase
        self._team = team
        self._seed = seed
        self._num_seats = num_seats
        self._judge = judge
        self._waited_s = 0.0
        self.takes_starts = True
        self.figures: Mapping[str, float] = {}

    def collect(self, request: RolloutRequest) -> Rollout:
        """Play this worker's share of the step's episodes, or of further ones."""
        starts = request.starts
        if starts is None:
            self._waited_s = 0.0
            starts = self._phase.starts(self._seed, request.step, num_seats=self._num_seats)
        rollout = join_rollouts([
            self._collector.collect(
                self._phase.policy,
                part,
                share_tokens=request.share_tokens,
                on_turn=lambda num_live: request.on_turn(f"{num_live} games running"),
                on_episode=None if self._judge is None else self._judge.submit,
            )
            for part in split_starts(self._team.share(starts), request.max_responses)
        ])
        if self._judge is None:
            return rollout
        request.on_turn("waiting for rewards")
        episodes = self._judge.collect(rollout.episodes)
        self._waited_s += self._judge.take_waited_s()
        self.figures = {"reward/wait_s": self._waited_s}
        return replace(rollout, episodes=episodes)

    def publish(self, model: nn.Module, version: int) -> None:
        """Do nothing: the engine is the run's."""

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return nothing: between two steps there is nothing under way."""
        return {}

    def close(self) -> None:
        """End the processes that reward; a second time does nothing."""
        if self._judge is not None:
            self._judge.close()


def split_starts(
    starts: Sequence[EpisodeStart], max_contexts: int | None
) -> list[Sequence[EpisodeStart]]:
    """Split starts into parts of at most so many contexts, in order; a table stays whole."""
    if max_contexts is None or not starts:
        return [starts]
    parts: list[list[EpisodeStart]] = [[]]
    for _, table in groupby(starts, key=lambda start: start.table):
        seats = list(table)
        if parts[-1] and len(parts[-1]) + len(seats) > max_contexts:
            parts.append([])
        parts[-1].extend(seats)
    return list(parts)


def join_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    """Put together what was played one part after the other.

    Its tokens are those that all would have held together, as a policy goes by demand.
    """
    return Rollout(
        episodes=[episode for rollout in rollouts for episode in rollout.episodes],
        peak_resident_tokens=sum(rollout.peak_resident_tokens for rollout in rollouts),
    )
