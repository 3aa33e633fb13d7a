"""One round at the tables: opponents move, prompts are written, replies are played."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from earl_envs import EndReason, Failure, Game, GameBatch, TextProtocol, attempt
from earl_envs.opponents.asking import ask_each

from earl_trainer.rollout.chat import ChatFormat, Dialogue
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.policies import Query
from earl_trainer.rollout.table import Table, Talker
from earl_trainer.types import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """A prompt that waits for its reply."""

    table: Table
    talker: Talker
    query: Query


@final
class Play:
    """Moves tables on, whoever waits for whom; an episode that goes wrong ends alone.

    Args:
        game: The rules.
        chat: Renders the conversations.
        max_context_tokens: An episode whose next turn does not fit is cut.
        max_reply_tokens: A longer reply is cut.
    """

    def __init__(
        self, game: Game, *, chat: ChatFormat, max_context_tokens: int, max_reply_tokens: int
    ) -> None:
        self._chat = chat
        self._protocol = TextProtocol(game)
        self.max_context_tokens = max_context_tokens
        self.max_reply_tokens = max_reply_tokens

    @property
    def min_return(self) -> float:
        """The lowest score of the game."""
        return self._protocol.game.min_return

    def move_opponents(self, batches: Sequence[GameBatch], tables: Sequence[Table]) -> None:
        """Let scripted opponents move until every table waits for a reply or is over."""
        while waiting := [
            table for table in tables if table.mover >= 0 and table.mover not in table.talkers
        ]:
            actions = ask_each(
                [table.opponent for table in waiting],
                lambda place, waiting=waiting: waiting[place].opponent_action(),
            )
            chosen = zip(waiting, actions, strict=True)
            _step(batches, [(table, action) for table, action in chosen if action is not None])

    def open_turns(self, tables: Sequence[Table], limit_tokens: int) -> list[OpenTurn]:
        """Write the next prompt at every table that waits for a reply and still has room."""
        turns: list[OpenTurn] = []
        for table in tables:
            if table.mover not in table.talkers:
                continue
            talker = table.talkers[table.mover]
            dialogue = self._next_dialogue(table, talker)
            if dialogue is None:
                continue
            talker.dialogue = dialogue
            budget = min(self.max_reply_tokens, limit_tokens - len(dialogue.prompt_ids))
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
            turns.append(OpenTurn(table=table, talker=talker, query=query))
        return turns

    def _next_dialogue(self, table: Table, talker: Talker) -> Dialogue | None:
        message = attempt(table.message, self._protocol, talker.start.seat)
        if isinstance(message, Failure):
            table.stop(EndReason.ENV_ERROR, message.error)
            return None
        if talker.dialogue is None:
            return self._chat.start(self._protocol.system_message(), message)
        return self._chat.extend(talker.dialogue, talker.turns[-1].reply_ids, message)

    def take_replies(
        self,
        batches: Sequence[GameBatch],
        turns: Sequence[OpenTurn],
        replies: Sequence[Completion | Failure],
    ) -> None:
        """Play the moves that replies make; one that failed or is no move ends its game.

        A reply with a log-prob that is no number has failed: nobody knows the distribution that it
        is from, and one such token would make the gradient of its whole mini-batch NaN.
        """
        moves: list[tuple[Table, int]] = []
        for turn, reply in zip(turns, replies, strict=True):
            completion = _sound(reply)
            if isinstance(completion, Failure):
                learns = turn.talker.learns
                reason = EndReason.ENV_ERROR if learns else EndReason.OPPONENT_ERROR
                turn.table.stop(reason, completion.error)
                continue
            action = self._take_reply(turn, completion)
            if action is not None:
                moves.append((turn.table, action))
        _step(batches, moves)

    def _take_reply(self, turn: OpenTurn, completion: Completion) -> int | None:
        """Add a reply to its context; return its move, or None when it ended the game."""
        text = self._chat.decode(completion.ids)
        cut = completion.finish_reason is not FinishReason.STOP
        parsed = attempt(self._protocol.parse, text, turn.query.state, cut=cut)
        action = None if isinstance(parsed, Failure) else parsed.action
        turn.talker.turns.append(
            Turn(
                prompt_ids=turn.query.prompt_ids,
                reply_ids=completion.ids,
                logprobs=completion.logprobs,
                versions=completion.versions,
                text=text,
                action=action,
                cut=cut,
            )
        )
        if isinstance(parsed, Failure):
            turn.table.stop(EndReason.ENV_ERROR, parsed.error)
        elif parsed.failure is not None:
            seat = turn.talker.start.seat
            turn.table.forfeit(seat, EndReason(parsed.failure.value), parsed.detail)
        return action


def _sound(reply: Completion | Failure) -> Completion | Failure:
    if isinstance(reply, Failure) or all(map(math.isfinite, reply.logprobs)):
        return reply
    place = next(place for place, each in enumerate(reply.logprobs) if not math.isfinite(each))
    return Failure(
        error=f"the engine gave token {place + 1} of a reply the log-prob {reply.logprobs[place]}"
    )


def _step(batches: Sequence[GameBatch], moves: Sequence[tuple[Table, int]]) -> None:
    for number, batch in enumerate(batches):
        now = [(table.index, action) for table, action in moves if table.number == number]
        if now:
            batch.step([action for _, action in now], [index for index, _ in now])
    for table, _ in moves:
        table.settle()
