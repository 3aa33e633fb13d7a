"""Playing many episodes at once: all tables in lockstep, every turn extending its context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from earl_dispatch import Columns
from earl_envs import Failure, Game, Opponent

from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.engine import Completion
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.rollout.play import OpenTurn, Play
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.table import Table, Talker
from earl_trainer.types import Episode, EpisodeStart, EpisodeSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What one collection brought back."""

    episodes: Sequence[Episode]
    """In the order of the starts."""
    peak_resident_tokens: int
    """The most tokens of the policy's contexts, whoever it plays for, in flight at one time. Where
    every context has an equal share: what shares would take that cut none of them."""
    samples: Columns | None = None
    """What is learned from, where that is no matter of the episodes' advantages."""

    @property
    def summaries(self) -> list[EpisodeSummary]:
        """The episodes without their tokens."""
        return [episode.summary for episode in self.episodes]


@final
class Collector:
    """Plays episodes of one game, all in lockstep.

    Seats of a table that no start names are the opponent's. Each round lets scripted opponents move
    until every table waits for a reply, then asks for all replies in one batch, of the learner's
    own seats as of an opponent that replies itself. An episode that goes wrong ends alone and says
    why.

    Args:
        game: The rules.
        game_id: Names the streams of chance.
        opponent: Plays in training; None where the learner plays every seat.
        match_opponent: Plays in matches.
        chat: Renders the conversations.
        max_context_tokens: An episode whose next turn does not fit is cut.
        max_reply_tokens: A longer reply is cut.

    Example:
        >>> rollout = collector.collect(LanguagePolicy(engine, temperature=1.0), starts)
    """

    def __init__(
        self,
        game: Game,
        *,
        game_id: str,
        opponent: Opponent | PastModels | None,
        match_opponent: Opponent | ReplyPolicy,
        chat: ChatFormat,
        max_context_tokens: int,
        max_reply_tokens: int,
    ) -> None:
        self._seating = Seating(
            game, game_id=game_id, opponent=opponent, match_opponent=match_opponent
        )
        self._play = Play(
            game,
            chat=chat,
            max_context_tokens=max_context_tokens,
            max_reply_tokens=max_reply_tokens,
        )

    @property
    def past(self) -> PastModels | None:
        """The run's own checkpoints, where these are the opponents."""
        return self._seating.past

    def collect(
        self,
        policy: ReplyPolicy,
        starts: Sequence[EpisodeStart],
        *,
        share_tokens: int | None = None,
        on_turn: Callable[[int], None] = lambda num_live: None,
        on_episode: Callable[[Episode], None] | None = None,
    ) -> Rollout:
        """Play one episode per start to its end.

        Args:
            policy: Plays the learner's seats.
            starts: What to play, maybe nothing; those of one table share everything but seat and
                sampling.
            share_tokens: Length at which every context is cut, if that is before its limit, for
                want of memory; None if contexts share what memory there is.
            on_turn: Called before each batch of replies with the number of games still running.
            on_episode: Called with every episode when it has ended, the others still running.
        """
        batches, tables = self._seating.set_tables(policy, starts)
        limit_tokens = self._play.max_context_tokens
        if share_tokens is not None:
            limit_tokens = min(limit_tokens, share_tokens)
        peak_resident_tokens, running = 0, list(tables)
        while True:
            self._play.move_opponents(batches, tables)
            turns = self._play.open_turns(tables, limit_tokens)
            if on_episode is not None:
                running = self._tell_ended(running, on_episode)
            if not turns:
                break
            on_turn(len(turns))
            replies = _ask(turns)
            resident_tokens = _resident_tokens(policy, turns, replies)
            peak_resident_tokens = max(peak_resident_tokens, resident_tokens)
            self._play.take_replies(batches, turns, replies)
        self._seating.record(tables)
        talkers = [talker for table in tables for talker in table.talkers.values()]
        if share_tokens is not None:
            peak_resident_tokens = self._shared_tokens(policy, talkers)
        min_return = self._play.min_return
        played = {t.start: t.episode(min_return=min_return) for t in talkers if t.learns}
        return Rollout(
            episodes=[played[start] for start in starts], peak_resident_tokens=peak_resident_tokens
        )

    def _tell_ended(
        self, running: Sequence[Table], on_episode: Callable[[Episode], None]
    ) -> list[Table]:
        """Tell of the episodes of tables that are over; return the other tables."""
        for table in running:
            if table.mover < 0:
                for talker in table.talkers.values():
                    if talker.learns:
                        on_episode(talker.episode(min_return=self._play.min_return))
        return [table for table in running if table.mover >= 0]

    def _shared_tokens(self, policy: ReplyPolicy, talkers: Sequence[Talker]) -> int:
        """Return what equal shares take that leave the longest prompt room for a whole reply."""
        prompts = [
            len(talker.dialogue.prompt_ids)
            for talker in talkers
            if talker.policy is policy and talker.dialogue is not None
        ]
        return len(prompts) * (max(prompts, default=0) + self._play.max_reply_tokens)


def _ask(turns: Sequence[OpenTurn]) -> list[Completion | Failure]:
    """Ask every policy for its replies in one batch; return them in the order of the turns."""
    replies: dict[int, Completion | Failure] = {}
    for policy in {id(turn.talker.policy): turn.talker.policy for turn in turns}.values():
        places = [place for place, turn in enumerate(turns) if turn.talker.policy is policy]
        answers = policy.reply([turns[place].query for place in places])
        replies |= zip(places, answers, strict=True)
    return [replies[place] for place in range(len(turns))]


def _resident_tokens(
    policy: ReplyPolicy, turns: Sequence[OpenTurn], replies: Sequence[Completion | Failure]
) -> int:
    """Add up the policy's contexts at the tables still playing, the new replies included."""
    num_tokens = 0
    for turn, reply in zip(turns, replies, strict=True):
        for talker in turn.table.talkers.values():
            if talker.policy is not policy:
                continue
            if talker is turn.talker:
                num_tokens += len(turn.query.prompt_ids)
                num_tokens += len(reply.ids) if isinstance(reply, Completion) else 0
            else:
                num_tokens += talker.context_tokens
    return num_tokens
