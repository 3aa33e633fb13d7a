"""Which opponents and sizes of the game are played, by how often the learner succeeds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from earl_envs import Game, make_game

Difficulty = Literal["easy", "normal", "hard"]
_SIZE = re.compile(r"([a-z_]+)=([0-9]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """An opponent and a size of the game."""

    opponent: str
    sizes: tuple[tuple[str, int], ...] = ()
    """Parameters of the game's class, by name."""

    @classmethod
    def from_text(cls, text: str) -> "Level":
        """Read `negamax:2`, or with sizes `negamax:2@rows=4&columns=5`.

        Raises:
            ValueError: If it is not of this form.
        """
        opponent, at, sizes = text.partition("@")
        pairs = [_SIZE.fullmatch(part) for part in sizes.split("&")] if at else []
        found = [(pair[1], int(pair[2])) for pair in pairs if pair is not None]
        if not opponent or len(found) < len(pairs):
            raise ValueError(
                f"a level looks like 'negamax:2' or 'negamax:2@rows=4&columns=5', got {text!r}"
            )
        return cls(opponent=opponent, sizes=tuple(found))

    @property
    def params(self) -> dict[str, int]:
        """The sizes as keyword arguments."""
        return dict(self.sizes)

    def make_game(self, game_id: str) -> Game:
        """Return the game in the level's size.

        Raises:
            ValueError: If it takes no such parameters.
        """
        return make_game(game_id, **self.params)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurriculumRules:
    """How levels are chosen and opened."""

    fractions: tuple[float, float, float]
    """Of a step's groups: those of easy, normal and hard levels."""
    easy_from: float
    """A level is easy from this success rate on."""
    hard_below: float
    """A level is hard below this success rate."""
    promote_from: float
    """The next level opens from this success rate at the last open one on,"""
    promote_games: int
    """as soon as it has been played so often."""
    memory: float
    """What a game counts a step later, in terms of a new one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTally:
    """How the learner does at a level."""

    games: float = 0.0
    """Games, older ones counting less."""
    points: float = 0.0
    """Their points: 1 for a win, 0.5 for a draw, 0 for a loss."""
    num_games: int = 0
    """All games."""

    @property
    def success(self) -> float | None:
        """Points per game, None before the first."""
        return self.points / self.games if self.games else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Curriculum:
    """Levels in the order in which they open; never changes, its methods return new ones.

    Open levels lie in pools by success rate: those too easy to learn much from, those too hard, and
    the rest. Each pool has its fraction of the groups, in which its levels share equally; fractions
    of empty pools go to the others in proportion. The idea of learning where success is neither
    certain nor out of reach is old (Bengio et al., "Curriculum learning", ICML 2009); pools with
    fractions are a choice of its simplest form. A group at success rate p has a variance of rewards
    p (1 - p), which is what group-relative advantages live on.

    Example:
        >>> curriculum = Curriculum.begin(rules, num_levels=3)
        >>> curriculum.probabilities()
        [1.0, 0.0, 0.0]
        >>> curriculum = curriculum.update([(0, 1.0)] * 50)  # fifty wins at the first level
        >>> curriculum.num_open
        2
    """

    rules: CurriculumRules
    tallies: tuple[LevelTally, ...]
    """One per level."""
    num_open: int = 1

    @classmethod
    def begin(cls, rules: CurriculumRules, *, num_levels: int) -> "Curriculum":
        """Return a curriculum of which the first level is open and nothing has been played."""
        return cls(rules=rules, tallies=(LevelTally(),) * num_levels)

    def difficulty(self, level: int) -> Difficulty:
        """Return the pool of a level; one that was never played is normal."""
        success = self.tallies[level].success
        if success is None:
            return "normal"
        if success >= self.rules.easy_from:
            return "easy"
        return "hard" if success < self.rules.hard_below else "normal"

    def probabilities(self) -> list[float]:
        """Return how likely each level is played; equally if all pools that are not empty have 0.

        Returns:
            [levels], 0 for those that are not open.
        """
        pools = [self.difficulty(level) for level in range(self.num_open)]
        easy, normal, hard = self.rules.fractions
        fractions: Mapping[str, float] = {"easy": easy, "normal": normal, "hard": hard}
        weights = [fractions[pool] / pools.count(pool) for pool in pools]
        if not sum(weights):
            weights = [1.0] * self.num_open
        total = sum(weights)
        closed = len(self.tallies) - self.num_open
        return [weight / total for weight in weights] + [0.0] * closed

    def draw(self, uniform: float) -> int:
        """Return a level by its probability.

        Args:
            uniform: A random number in [0, 1).
        """
        below = 0.0
        shares = self.probabilities()[: self.num_open]
        for level, share in enumerate(shares):
            below += share
            if uniform < below:
                return level
        # Rounding has left the sum below the number; the last level that has a share is its.
        return max(level for level, share in enumerate(shares) if share)

    def update(self, results: Sequence[tuple[int, float]]) -> "Curriculum":
        """Return what a step's games make of it; at most one further level opens.

        Args:
            results: Level and points of each game.
        """
        memory = self.rules.memory
        tallies = [
            replace(each, games=each.games * memory, points=each.points * memory)
            for each in self.tallies
        ]
        for level, points in results:
            tally = tallies[level]
            tallies[level] = LevelTally(
                games=tally.games + 1.0,
                points=tally.points + points,
                num_games=tally.num_games + 1,
            )
        last = tallies[self.num_open - 1]
        opens = (
            self.num_open < len(tallies)
            and last.num_games >= self.rules.promote_games
            and (last.success or 0.0) >= self.rules.promote_from
        )
        return replace(self, tallies=tuple(tallies), num_open=self.num_open + opens)

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what a run that goes on needs to know."""
        return {
            "num_open": self.num_open,
            "tallies": [[each.games, each.points, each.num_games] for each in self.tallies],
        }

    @classmethod
    def from_dict(cls, rules: CurriculumRules, values: Mapping[str, Any]) -> "Curriculum":
        """Go on from what `to_dict` returned."""
        return cls(
            rules=rules,
            num_open=values["num_open"],
            tallies=tuple(
                LevelTally(games=games, points=points, num_games=num_games)
                for games, points, num_games in values["tallies"]
            ),
        )
