"""Playing many episodes at once: all tables in lockstep, every turn extending its context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from earl_envs import (
    EndReason,
    Failure,
    Game,
    GameBatch,
    Opponent,
    TextProtocol,
    attempt,
)
from earl_envs.opponents.asking import ask_each

from earl_trainer.rollout.chat import ChatFormat, Dialogue
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.rollout.policies import Query, ReplyPolicy
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.table import Table, Talker
from earl_trainer.types import Episode, EpisodeStart, EpisodeSummary, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What one collection brought back."""

    episodes: Sequence[Episode]
    """In the order of the starts."""
    peak_resident_tokens: int
    """The most tokens of the policy's contexts, whoever it plays for, in flight at one time. Where
    every context has an equal share: what shares would take that cut none of them."""

    @property
    def summaries(self) -> list[EpisodeSummary]:
        """The episodes without their tokens."""
        return [episode.summary for episode in self.episodes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OpenTurn:
    """A prompt that waits for its reply."""

    table: Table
    talker: Talker
    query: Query


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
        match_opponent: Opponent,
        chat: ChatFormat,
        max_context_tokens: int,
        max_reply_tokens: int,
    ) -> None:
        self._seating = Seating(
            game, game_id=game_id, opponent=opponent, match_opponent=match_opponent
        )
        self._chat = chat
        self._protocol = TextProtocol(game)
        self._max_context_tokens = max_context_tokens
        self._max_reply_tokens = max_reply_tokens

    def collect(
        self,
        policy: ReplyPolicy,
        starts: Sequence[EpisodeStart],
        *,
        share_tokens: int | None = None,
        on_turn: Callable[[int], None] = lambda num_live: None,
    ) -> Rollout:
        """Play one episode per start to its end.

        Args:
            policy: Plays the learner's seats.
            starts: What to play, maybe nothing; those of one table share everything but seat and
                sampling.
            share_tokens: Length at which every context is cut, if that is before its limit, for
                want of memory; None if contexts share what memory there is.
            on_turn: Called before each batch of replies with the number of games still running.
        """
        batches, tables = self._seating.set_tables(policy, starts)
        limit_tokens = self._max_context_tokens
        if share_tokens is not None:
            limit_tokens = min(limit_tokens, share_tokens)
        peak_resident_tokens = 0
        while True:
            self._play_opponents(batches, tables)
            turns = self._open_turns(tables, limit_tokens)
            if not turns:
                break
            on_turn(len(turns))
            replies = _ask(turns)
            resident_tokens = _resident_tokens(policy, turns, replies)
            peak_resident_tokens = max(peak_resident_tokens, resident_tokens)
            self._play_replies(batches, turns, replies)
        self._seating.record(tables)
        talkers = [talker for table in tables for talker in table.talkers.values()]
        if share_tokens is not None:
            peak_resident_tokens = self._shared_tokens(policy, talkers)
        min_return = self._protocol.game.min_return
        played = {t.start: t.episode(min_return=min_return) for t in talkers if t.learns}
        return Rollout(
            episodes=[played[start] for start in starts], peak_resident_tokens=peak_resident_tokens
        )

    def _play_opponents(self, batches: Sequence[GameBatch], tables: Sequence[Table]) -> None:
        while waiting := [
            table for table in tables if table.mover >= 0 and table.mover not in table.talkers
        ]:
            actions = ask_each(
                [table.opponent for table in waiting],
                lambda place, waiting=waiting: waiting[place].opponent_action(),
            )
            chosen = zip(waiting, actions, strict=True)
            _step(batches, [(table, action) for table, action in chosen if action is not None])

    def _open_turns(self, tables: Sequence[Table], limit_tokens: int) -> list[_OpenTurn]:
        """Write the next prompt at every table that waits for a reply and still has room."""
        turns: list[_OpenTurn] = []
        for table in tables:
            if table.mover not in table.talkers:
                continue
            talker = table.talkers[table.mover]
            dialogue = self._next_dialogue(table, talker)
            if dialogue is None:
                continue
            talker.dialogue = dialogue
            budget = min(self._max_reply_tokens, limit_tokens - len(dialogue.prompt_ids))
            if budget < 1:
                table.stop(
                    EndReason.CONTEXT_LIMIT,
                    f"the prompt of {len(dialogue.prompt_ids)} tokens leaves no room for a reply "
                    f"under the limit of {limit_tokens}",
                )
                continue
            query = Query(
                start=talker.start,
                turn=len(talker.turns),
                state=table.state,
                prompt_ids=dialogue.prompt_ids,
                max_new_tokens=budget,
            )
            turns.append(_OpenTurn(table=table, talker=talker, query=query))
        return turns

    def _next_dialogue(self, table: Table, talker: Talker) -> Dialogue | None:
        message = attempt(table.message, self._protocol, talker.start.seat)
        if isinstance(message, Failure):
            table.stop(EndReason.ENV_ERROR, message.error)
            return None
        if talker.dialogue is None:
            return self._chat.start(self._protocol.system_message(), message)
        return self._chat.extend(talker.dialogue, talker.turns[-1].reply_ids, message)

    def _shared_tokens(self, policy: ReplyPolicy, talkers: Sequence[Talker]) -> int:
        """Return what equal shares take that leave the longest prompt room for a whole reply."""
        prompts = [
            len(talker.dialogue.prompt_ids)
            for talker in talkers
            if talker.policy is policy and talker.dialogue is not None
        ]
        return len(prompts) * (max(prompts, default=0) + self._max_reply_tokens)

    def _play_replies(
        self,
        batches: Sequence[GameBatch],
        turns: Sequence[_OpenTurn],
        replies: Sequence[Completion | Failure],
    ) -> None:
        moves: list[tuple[Table, int]] = []
        for turn, completion in zip(turns, replies, strict=True):
            if isinstance(completion, Failure):
                learns = turn.talker.learns
                reason = EndReason.ENV_ERROR if learns else EndReason.OPPONENT_ERROR
                turn.table.stop(reason, completion.error)
                continue
            action = self._take_reply(turn, completion)
            if action is not None:
                moves.append((turn.table, action))
        _step(batches, moves)

    def _take_reply(self, turn: _OpenTurn, completion: Completion) -> int | None:
        """Add a reply to its context; return its move, or None when it ended the game."""
        text = self._chat.decode(completion.ids)
        parsed = attempt(self._protocol.parse, text, turn.query.state)
        action = None if isinstance(parsed, Failure) else parsed.action
        turn.talker.turns.append(
            Turn(
                prompt_ids=turn.query.prompt_ids,
                reply_ids=completion.ids,
                logprobs=completion.logprobs,
                versions=completion.versions,
                text=text,
                action=action,
                cut=completion.finish_reason is not FinishReason.STOP,
            )
        )
        if isinstance(parsed, Failure):
            turn.table.stop(EndReason.ENV_ERROR, parsed.error)
        elif parsed.failure is not None:
            seat = turn.talker.start.seat
            turn.table.forfeit(seat, EndReason(parsed.failure.value), parsed.detail)
        return action


def _ask(turns: Sequence[_OpenTurn]) -> list[Completion | Failure]:
    """Ask every policy for its replies in one batch; return them in the order of the turns."""
    replies: dict[int, Completion | Failure] = {}
    for policy in {id(turn.talker.policy): turn.talker.policy for turn in turns}.values():
        places = [place for place, turn in enumerate(turns) if turn.talker.policy is policy]
        answers = policy.reply([turns[place].query for place in places])
        replies |= zip(places, answers, strict=True)
    return [replies[place] for place in range(len(turns))]


def _resident_tokens(
    policy: ReplyPolicy, turns: Sequence[_OpenTurn], replies: Sequence[Completion | Failure]
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


def _step(batches: Sequence[GameBatch], moves: Sequence[tuple[Table, int]]) -> None:
    for number, batch in enumerate(batches):
        now = [(table.index, action) for table, action in moves if table.number == number]
        if now:
            batch.step([action for _, action in now], [index for index, _ in now])
    for table, _ in moves:
        table.settle()
