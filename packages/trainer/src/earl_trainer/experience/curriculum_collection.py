"""A rollout stage that plays the levels of a curriculum."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final

import numpy as np
from earl_envs import FORFEITS, EndReason

from earl_trainer.experience.curriculum import Curriculum
from earl_trainer.rollout.collection import Collection, EpisodePlayer, RolloutRequest
from earl_trainer.rollout.collection_layer import CollectionLayer
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.seeding import derive_seed
from earl_trainer.types import Episode, EpisodeStart
from earl_trainer.workers.group import Group

_RESULTS: Final = FORFEITS | {EndReason.FINISHED}


@final
class LevelPlayer:
    """Plays every episode at the level that is drawn for its group.

    The draw depends on the group's game seed and the curriculum alone, so that all episodes of a
    group are of one level, whoever plays them.

    Args:
        players: Plays each level, by the level's name.
        curriculum: Where the run stands.
    """

    def __init__(self, players: Mapping[str, EpisodePlayer], curriculum: Curriculum) -> None:
        self._players = players
        self.curriculum = curriculum

    def collect(
        self,
        policy: ReplyPolicy,
        starts: Sequence[EpisodeStart],
        *,
        share_tokens: int | None = None,
        on_turn: Callable[[int], None] = lambda num_live: None,
        on_episode: Callable[[Episode], None] | None = None,
    ) -> Rollout:
        """Play one episode per start, level by level; the arguments are those of a `Collector`."""
        names = self.names
        levels = [names[self._draw(start)] for start in starts]
        episodes = dict[int, Episode]()
        peak_tokens = 0
        for name in dict.fromkeys(levels):
            places = [place for place, level in enumerate(levels) if level == name]
            rollout = self._players[name].collect(
                policy,
                [replace(starts[place], level=name) for place in places],
                share_tokens=share_tokens,
                on_turn=on_turn,
                on_episode=on_episode,
            )
            episodes |= zip(places, rollout.episodes, strict=True)
            # What all would have held together: a selector goes by demand.
            peak_tokens += rollout.peak_resident_tokens
        return Rollout(
            episodes=[episodes[place] for place in range(len(starts))],
            peak_resident_tokens=peak_tokens,
        )

    def _draw(self, start: EpisodeStart) -> int:
        rng = np.random.default_rng(derive_seed(start.game_seed, "level"))
        return self.curriculum.draw(float(rng.random()))

    @property
    def names(self) -> Sequence[str]:
        """The levels, in the order in which they open."""
        return list(self._players)

    def results(self, episodes: Sequence[Episode]) -> list[tuple[int, float]]:
        """Return level and points of every game that was played to a result."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return [
            (
                numbers[episode.start.level],
                0.5 + 0.5 * (game.outcome > 0) - 0.5 * (game.outcome < 0),
            )
            for episode in episodes
            for game in episode.games
            if game.end_reason in _RESULTS
        ]


@final
class CurriculumCollection(CollectionLayer):
    """Plays a phase's episodes at the levels of a curriculum, and goes by how they end.

    A step's results, of all its rounds together, change the curriculum of the next step. All
    workers hear of all results, and open levels alike.

    Args:
        games: Plays, with `player`; closed with this.
        player: Of the levels.
        workers: Whose results count.
        note: Is told in one line when a level opens.
    """

    def __init__(
        self, games: Collection, player: LevelPlayer, workers: Group, note: Callable[[str], None]
    ) -> None:
        super().__init__(games)
        self._player = player
        self._workers = workers
        self._note = note
        self._results: list[tuple[int, float]] = []
        self._next = player.curriculum

    def collect(self, request: RolloutRequest) -> Rollout:
        """Play this worker's share of the episodes, and go by how all of the step ended."""
        if request.starts is None:
            self._begin_step()
        rollout = self._games.collect(request)
        told = self._workers.all_gather(self._player.results(rollout.episodes))
        self._results += [result for part in told for result in part]
        self._next = self._player.curriculum.update(self._results)
        self._own_figures = _figures_of(self._next)
        return rollout

    def _begin_step(self) -> None:
        before, after = self._player.curriculum, self._next
        if after.num_open > before.num_open:
            last = after.tallies[before.num_open - 1]
            self._note(
                f"curriculum: level {after.num_open} opens, "
                f"{self._player.names[before.num_open]}, as success at level {before.num_open} is "
                f"{last.success or 0.0:.2f}, at least {before.rules.promote_from:g}, after "
                f"{last.num_games} games"
            )
        self._player.curriculum = after
        self._results = []

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return where the next step's curriculum stands."""
        return {**super().to_dict(), "curriculum": self._next.to_dict()}


def _figures_of(curriculum: Curriculum) -> dict[str, float]:
    """Return the open levels, and success and games of each by its number."""
    levels = list(enumerate(curriculum.tallies[: curriculum.num_open], start=1))
    return {
        "curriculum/open_levels": float(curriculum.num_open),
        **{f"curriculum/games_{number}": float(tally.num_games) for number, tally in levels},
        **{
            f"curriculum/success_{number}": tally.success
            for number, tally in levels
            if tally.success is not None
        },
    }
