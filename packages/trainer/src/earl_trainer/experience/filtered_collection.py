"""A rollout stage whose episodes go through filters, and groups that fail them are made up for."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import final

from earl_trainer.experience.config import FilterName
from earl_trainer.experience.filters import (
    ZERO_VARIANCE,
    Facts,
    FilterRules,
    drop,
    facts_of,
    kept_groups,
)
from earl_trainer.rollout.collection import Collection, RolloutRequest
from earl_trainer.rollout.collection_layer import CollectionLayer
from earl_trainer.rollout.collector import Rollout
from earl_trainer.types import Episode, EpisodeStart, EpisodeSummary, RunFailedError
from earl_trainer.workers.group import Group

RewardFunction = Callable[[Sequence[EpisodeSummary]], Sequence[float | None]]


@final
class FilteredCollection(CollectionLayer):
    """Marks the episodes that filters drop, and plays other groups in the place of dropped ones.

    Dynamic sampling (DAPO, arXiv:2503.14476, section 3.2): a group of which every episode was
    dropped is replaced by one that starts elsewhere, from the same seat, until as many groups are
    left as were asked for, or all rounds are played; then the step trains on what there is. All
    episodes stay in the rollout, so that what is reported of games is reported of all that were
    played.

    Where nothing at all is left, groups without variance are trained on all the same, which has no
    gradient but that of a KL term: a policy that always wins ends no run.

    Args:
        games: Plays a step's episodes, and others in their place if it takes starts; closed with
            this.
        rules: The filters.
        rewards: Of episodes.
        workers: Whose episodes are compared; of each only figures are told.
        starts: Of a round, counted from 0, of a step.
        max_rounds: At most.
    """

    def __init__(
        self,
        games: Collection,
        rules: FilterRules,
        rewards: RewardFunction,
        workers: Group,
        *,
        starts: Callable[[int, int], Sequence[EpisodeStart]] = lambda step, number: (),
        max_rounds: int = 1,
    ) -> None:
        super().__init__(games)
        self._rules = rules
        self._rewards = rewards
        self._workers = workers
        self._starts = starts
        self._max_rounds = max_rounds

    def collect(self, request: RolloutRequest) -> Rollout:
        """Return a step's episodes, marked; how many each filter dropped is in the figures.

        Raises:
            RunFailedError: If there was something to train on and filters left nothing of it.
        """
        rollout = self._games.collect(request)
        episodes, peak_tokens, num_rounds = [*rollout.episodes], rollout.peak_resident_tokens, 1
        facts, dropped, first = self._filter(episodes)
        while self.takes_starts and num_rounds < self._max_rounds:
            planned = self._starts(request.step, num_rounds)
            filled = {group % _num_groups(planned) for group in kept_groups(facts, dropped)}
            missing = [
                start for start in planned if start.group % _num_groups(planned) not in filled
            ]
            if not missing:
                break
            request.on_turn(f"playing other groups, round {num_rounds + 1}")
            more = self._games.collect(replace(request, starts=missing))
            episodes += more.episodes
            # One round after the other: they never hold their tokens at one time.
            peak_tokens = max(peak_tokens, more.peak_resident_tokens)
            num_rounds += 1
            facts, dropped, first = self._filter(episodes)
        waived = not kept_groups(facts, dropped) and ZERO_VARIANCE in dropped
        if waived:
            rest: list[FilterName | None] = [
                None if name == ZERO_VARIANCE else name for name in dropped
            ]
            dropped = rest
        self._check(facts, dropped, num_rounds=num_rounds)
        self._own_figures = {
            **{f"filter/{name}": float(dropped.count(name)) for name in self._rules.names},
            "filter/rounds": float(num_rounds),
            "filter/kept_groups": float(len(kept_groups(facts, dropped))),
            "filter/waived": float(waived),
        }
        own = dropped[first : first + len(episodes)]
        return Rollout(episodes=_mark(episodes, own), peak_resident_tokens=peak_tokens)

    def _filter(
        self, episodes: Sequence[Episode]
    ) -> tuple[list[Facts], list[FilterName | None], int]:
        """Return facts of all workers' episodes, what drops each, and where this one's begin."""
        rewards = self._rewards([episode.summary for episode in episodes])
        told = self._workers.all_gather([
            facts_of(episode, reward, self._rules)
            for episode, reward in zip(episodes, rewards, strict=True)
        ])
        facts = [each for part in told for each in part]
        return facts, drop(facts, self._rules), sum(map(len, told[: self._workers.rank]))

    def _check(
        self, facts: Sequence[Facts], dropped: Sequence[FilterName | None], *, num_rounds: int
    ) -> None:
        if kept_groups(facts, dropped) or not any(dropped):
            return
        counts = Counter(name for name in dropped if name is not None)
        told = ", ".join(f"{number} by {name}" for name, number in counts.items())
        raise RunFailedError(
            f"experience.filters left nothing to train on of {len(facts)} episodes in {num_rounds} "
            f"rounds: dropped were {told}"
        )


def later_round(starts: Sequence[EpisodeStart], number: int) -> list[EpisodeStart]:
    """Give the starts of a later round of a step identities that no earlier round has.

    Args:
        starts: Of a whole step, drawn by a seed of their own.
        number: Of the round, counted from 0.
    """
    num_tables = len({start.table for start in starts})
    return [
        replace(
            start,
            episode=start.episode + number * len(starts),
            table=start.table + number * num_tables,
            group=start.group + number * _num_groups(starts),
        )
        for start in starts
    ]


def _num_groups(starts: Sequence[EpisodeStart]) -> int:
    return len({start.group for start in starts})


def _mark(episodes: Sequence[Episode], dropped: Sequence[FilterName | None]) -> list[Episode]:
    return [
        episode if name is None else replace(episode, dropped_by=name)
        for episode, name in zip(episodes, dropped, strict=True)
    ]
