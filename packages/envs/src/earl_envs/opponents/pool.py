"""A pool of past opponents, one of which is drawn for every episode."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from earl_envs.evaluation.elo import expected_score
from earl_envs.game import Game, State
from earl_envs.opponents.base import Opponent, make_opponent
from earl_envs.suggest import suggest

_ELO_STEP = 16.0
_HARD_POWER = 2


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PoolMember:
    """One opponent of a pool, such as a checkpoint of the learner."""

    name: str
    opponent: Opponent
    step: int = 0
    """Training step that it was saved at."""
    rating: float | int = 0.0
    """Elo rating, on the scale of the pool's `learner_rating`."""


def uniform_weights(members: Sequence[PoolMember], learner_rating: float | int) -> list[float]:
    """Give every member weight 1: fictitious self-play, J. Heinrich et al. (ICML 2015)."""
    return [1.0] * len(members)


def recency_weights(members: Sequence[PoolMember], learner_rating: float | int) -> list[float]:
    """Give the k-th newest member weight 1 / k, members of one step the same.

    Own choice. Any member stays likely enough to be met: of n, the oldest has a share of about
    1 / (n ln n).
    """
    return [1.0 / (1 + sum(other.step > member.step for other in members)) for member in members]


def rating_weights(members: Sequence[PoolMember], learner_rating: float | int) -> list[float]:
    """Give a member that the learner beats with probability p the weight (1 - p)^2.

    Prioritised fictitious self-play with f_hard, O. Vinyals et al., "Grandmaster level in StarCraft
    II" (Nature 575, 2019), Methods; p is taken from the Elo ratings.
    """
    return [expected_score(m.rating, learner_rating) ** _HARD_POWER for m in members]


SAMPLINGS: Mapping[str, Callable[[Sequence[PoolMember], float], list[float]]] = {
    "uniform": uniform_weights,
    "recency": recency_weights,
    "rating": rating_weights,
}
"""How members are weighted: the weights from the members and the learner's rating."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class OpponentPool:
    """Opponents of which each episode meets one; a pool never changes, its methods return new ones.

    Example:
        pool = OpponentPool(members=(PoolMember(name="random", opponent=RandomOpponent()),))
        pool = pool.add(PoolMember(name="step-100", opponent=policy, step=100))
        member, opponent = pool.draw(rng)                        # once per episode
        pool = pool.update_rating(member.name, learner_score=1)  # the learner won
    """

    members: Sequence[PoolMember]
    sampling: str = "uniform"
    """One of `SAMPLINGS`."""
    learner_rating: float | int = 0.0

    def __post_init__(self) -> None:
        if self.sampling not in SAMPLINGS:
            raise ValueError(suggest(self.sampling, SAMPLINGS, what="sampling"))
        names = [member.name for member in self.members]
        if not names:
            raise ValueError("a pool needs at least one member, got none")
        if len(set(names)) < len(names):
            raise ValueError(f"the names of a pool's members must differ, got {names}")

    @classmethod
    def from_text(cls, specs: str) -> "OpponentPool":
        """Make a pool of the opponents named by specs such as `random,negamax:2`.

        A comma ends a spec, so that none with a comma in its own argument can be named here.
        """
        names = specs.split(",")
        try:
            members = tuple(PoolMember(name=name, opponent=make_opponent(name)) for name in names)
        except ValueError as error:
            raise ValueError(f"a pool's specs end at commas, {specs!r}: {error}") from None
        return cls(members=members)

    @property
    def probabilities(self) -> dict[str, float]:
        """How likely each member is drawn, by name; equally if all weights round to 0."""
        weights = SAMPLINGS[self.sampling](self.members, self.learner_rating)
        if not sum(weights):
            weights = uniform_weights(self.members, self.learner_rating)
        total = sum(weights)
        pairs = zip(self.members, weights, strict=True)
        return {member.name: weight / total for member, weight in pairs}

    def draw(self, rng: np.random.Generator) -> tuple[PoolMember, Opponent]:
        """Draw a member and its opponent; one of a pool within the pool is drawn further."""
        shares = list(self.probabilities.values())
        member = self.members[int(rng.choice(len(shares), p=shares))]
        return member, draw_opponent(member.opponent, rng)

    def add(self, member: PoolMember) -> "OpponentPool":
        """Return a pool with one more member."""
        return replace(self, members=(*self.members, member))

    def update_rating(self, name: str, *, learner_score: float | int) -> "OpponentPool":
        """Return a pool whose ratings know of one more game against a member.

        R' = R + 16 (S - E) for either side: Elo (1978), with `expected_score` as E.

        Args:
            name: The member that was met.
            learner_score: S of the learner: 1 for a win, 0.5 for a draw, 0 for a loss.
        """
        if not 0 <= learner_score <= 1:
            raise ValueError(f"learner_score must be in 0..1, got {learner_score}")
        by_name = {member.name: member for member in self.members}
        if name not in by_name:
            raise ValueError(suggest(name, by_name, what="member"))
        rating = by_name[name].rating
        change = _ELO_STEP * (learner_score - expected_score(self.learner_rating, rating))
        by_name[name] = replace(by_name[name], rating=rating - change)
        learner_rating = self.learner_rating + change
        return replace(self, members=tuple(by_name.values()), learner_rating=learner_rating)

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Draw a member for this one move; to meet one all game long, use `draw_opponent`."""
        return self.draw(rng)[1].move(game, state, seat, rng)


def draw_opponent(opponent: Opponent, rng: np.random.Generator) -> Opponent:
    """Return who plays an episode: a member drawn from a pool, any other opponent itself."""
    return opponent.draw(rng)[1] if isinstance(opponent, OpponentPool) else opponent
