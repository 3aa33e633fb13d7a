"""Who sits at which table: the learner's seats, and whoever it meets there."""

from collections.abc import Sequence
from typing import final

from earl_envs import FORFEITS, EndReason, Game, GameBatch, Opponent, episode_rng
from earl_envs.opponents.pool import OpponentPool, draw_opponent

from earl_trainer.rollout.engine import NO_WEIGHTS
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.rollout.table import Table, Talker, game_seed
from earl_trainer.seeding import derive_seed
from earl_trainer.types import EpisodeStart

_RESULTS = FORFEITS | {EndReason.FINISHED}


@final
class Seating:
    """Sets the tables of a collection and rates the opponents after it.

    Every table draws its opponent once, by its game seed, so that the tables of a group meet the
    same one. An opponent that replies gets a context of its own in every seat that it plays.

    Args:
        game: The rules.
        game_id: Names the streams of chance.
        opponent: Plays in training; None where the learner plays every seat. While a run has no
            past models, the learner meets itself.
        match_opponent: Plays in matches.
    """

    def __init__(
        self,
        game: Game,
        *,
        game_id: str,
        opponent: Opponent | PastModels | None,
        match_opponent: Opponent | ReplyPolicy,
    ) -> None:
        self._game = game
        self._game_id = game_id
        self.past = opponent if isinstance(opponent, PastModels) else None
        self._opponent = None if isinstance(opponent, PastModels) else opponent
        self._match_opponent = match_opponent
        self._pool: OpponentPool | None = None

    def set_tables(
        self, policy: ReplyPolicy, starts: Sequence[EpisodeStart]
    ) -> tuple[list[GameBatch], list[Table]]:
        """Return the tables of these starts, and the batches their games are played in."""
        self._pool = None
        if self.past is not None and not all(start.match for start in starts):
            self._pool = self.past.pool()
        seated: dict[int, list[EpisodeStart]] = {}
        for start in starts:
            seated.setdefault(start.table, []).append(start)
        groups = list(seated.values())
        batches = [
            GameBatch(self._game, seeds=[game_seed(group[0], number) for group in groups])
            for number in range(max((start.num_games for start in starts), default=0))
        ]
        return batches, [
            self._table(policy, batches, index, group) for index, group in enumerate(groups)
        ]

    def record(self, tables: Sequence[Table]) -> None:
        """Rate the past models by the games that they have played to a result."""
        if self.past is None or self._pool is None:
            return
        scores = [
            (table.member, 0.5 + 0.5 * (game.outcome > 0) - 0.5 * (game.outcome < 0))
            for table in tables
            for talker in table.talkers.values()
            if talker.learns and table.member and _by_weights(talker)
            for game in talker.games
            if game.end_reason in _RESULTS
        ]
        self.past.record(self._pool, scores)

    def _table(
        self,
        policy: ReplyPolicy,
        batches: Sequence[GameBatch],
        index: int,
        group: Sequence[EpisodeStart],
    ) -> Table:
        member, opponent, model = self._rival(policy, group[0])
        talkers = {start.seat: Talker(start=start, policy=policy) for start in group}
        if model is not None:
            num_seats = self._game.num_seats
            free = [seat for seat in range(num_seats) if seat not in talkers]
            talkers |= {seat: _replying(model, group[0], seat, num_seats) for seat in free}
        return Table(
            self._game,
            game_id=self._game_id,
            batches=batches,
            index=index,
            talkers=talkers,
            opponent=opponent,
            member=member,
        )

    def _rival(
        self, policy: ReplyPolicy, start: EpisodeStart
    ) -> tuple[str, Opponent | None, ReplyPolicy | None]:
        """Name of a pool's member, and either who picks moves or who replies."""
        # The stream past the last seat is no seat's.
        rng = episode_rng(
            start.game_seed, game_id=self._game_id, episode=0, seat=self._game.num_seats
        )
        rival = self._match_opponent if start.match else self._opponent
        if isinstance(rival, Opponent):
            return "", draw_opponent(rival, rng), None
        if rival is not None:
            return "", None, rival
        if self.past is None:
            return "", None, None
        if self._pool is None:
            return "", None, policy
        member, _ = self._pool.draw(rng)
        return member.name, None, self.past.policy(member.name)


def _by_weights(talker: Talker) -> bool:
    """Whether a model replied and not a script, which says nothing about the learner."""
    return any(version > NO_WEIGHTS for turn in talker.turns for version in turn.versions)


def _replying(rival: ReplyPolicy, first: EpisodeStart, seat: int, num_seats: int) -> Talker:
    """An opponent's seat; its sampling is that of the whole group."""
    start = EpisodeStart(
        # Never the identity of an episode, should the opponent be the learner itself.
        episode=-1 - first.episode * num_seats - seat,
        table=first.table,
        group=first.group,
        seat=seat,
        game_seed=first.game_seed,
        reply_seed=derive_seed(first.game_seed, "opponent's reply", seat),
        num_games=first.num_games,
        match=first.match,
    )
    return Talker(start=start, policy=rival, learns=False)
