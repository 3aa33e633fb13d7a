"""A rollout stage against the run's own checkpoints, which says whom the learner meets."""

from collections.abc import Callable
from typing import final

from earl_envs.opponents.pool import OpponentPool

from earl_trainer.rollout.collection import Collection, RolloutRequest
from earl_trainer.rollout.collection_layer import CollectionLayer
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.past_models import PastModels


@final
class LeagueCollection(CollectionLayer):
    """Reports ratings, and tells in one line when they change who is met most.

    By ratings a checkpoint is met in proportion to the square of the chance that the learner does
    not beat it (`earl_envs.opponents.pool.rating_weights`): whoever it fails against comes up.

    Args:
        games: Plays; closed with this.
        past: Whom they are played against.
        note: Is told who is met most, where ratings say so.
    """

    def __init__(self, games: Collection, past: PastModels, note: Callable[[str], None]) -> None:
        super().__init__(games)
        self._past = past
        self._note = note

    def collect(self, request: RolloutRequest) -> Rollout:
        """Play the episodes, and report what they made of the ratings."""
        # Between both no checkpoint is written: what differs is what the games have made of it.
        before = self._past.pool()
        rollout = self._games.collect(request)
        after = self._past.pool()
        if before is None or after is None:
            return rollout
        name, share = _most_met(after)
        member = next(member for member in after.members if member.name == name)
        self._own_figures = {
            "league/members": float(len(after.members)),
            "league/learner_rating": float(after.learner_rating),
            "league/most_met_step": float(member.step),
            "league/most_met_share": share,
            "league/most_met_rating": float(member.rating),
        }
        if name != _most_met(before)[0]:
            self._note(
                f"league: {name} is met most from here on, at {100 * share:.0f} % of tables, as "
                f"its rating is {member.rating:.0f} and the learner's {after.learner_rating:.0f}"
            )
        return rollout


def _most_met(pool: OpponentPool) -> tuple[str, float]:
    """Return the likeliest member, the newest of several, and how likely it is."""
    shares = pool.probabilities
    members = sorted(pool.members, key=lambda member: (shares[member.name], member.step))
    return members[-1].name, shares[members[-1].name]
