"""Playing many episodes at once: all games in lockstep, every turn extending its context."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from earl_envs import (
    EndReason,
    Failure,
    Game,
    GameBatch,
    Opponent,
    ParseFailure,
    TextProtocol,
    attempt,
    episode_rng,
)

from earl_trainer.rollout.chat import ChatFormat, Dialogue
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.policies import Query, ReplyPolicy
from earl_trainer.types import Episode, EpisodeStart, Turn

_FORFEIT_REASON = {
    ParseFailure.UNPARSABLE: EndReason.UNPARSABLE,
    ParseFailure.ILLEGAL: EndReason.ILLEGAL_MOVE,
}
_FORFEIT_OUTCOME = -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """What one collection brought back."""

    episodes: Sequence[Episode]
    """In the order of the starts."""
    peak_resident_tokens: int
    """The most context tokens that were in flight at one time."""


@dataclass(slots=True, kw_only=True)
class _Seat:
    """The learner's seat in a game under way."""

    start: EpisodeStart
    rngs: dict[int, np.random.Generator]
    """Chance of each other seat."""
    dialogue: Dialogue | None = None
    turns: list[Turn] = field(default_factory=list[Turn])
    end: tuple[EndReason, str] | None = None
    """Set when something other than the rules ended the episode."""


@final
class Collector:
    """Plays episodes of one game against one opponent, all in lockstep.

    Each round lets the opponents move until the learner's seat is to move or the game is over, then
    asks the policy for all replies in one batch. An episode that goes wrong ends alone and says
    why.

    Example:
        >>> rollout = collector.collect(LanguagePolicy(engine, temperature=1.0), starts)
    """

    def __init__(
        self,
        game: Game,
        *,
        game_id: str,
        opponent: Opponent,
        chat: ChatFormat,
        max_context_tokens: int,
        max_reply_tokens: int,
    ) -> None:
        self._game = game
        self._game_id = game_id
        self._opponent = opponent
        self._chat = chat
        self._protocol = TextProtocol(game)
        self._max_context_tokens = max_context_tokens
        self._max_reply_tokens = max_reply_tokens

    def collect(
        self,
        policy: ReplyPolicy,
        starts: Sequence[EpisodeStart],
        *,
        on_turn: Callable[[int], None] = lambda num_live: None,
    ) -> Rollout:
        """Play one episode per start to its end.

        Args:
            policy: Plays the learner's seat.
            starts: What to play.
            on_turn: Called before each batch of replies with the number of games still running.
        """
        batch = GameBatch(self._game, seeds=[start.game_seed for start in starts])
        seats = [
            _Seat(
                start=start,
                rngs={
                    other: episode_rng(
                        start.game_seed, game_id=self._game_id, episode=0, seat=other
                    )
                    for other in range(self._game.num_seats)
                    if other != start.seat
                },
            )
            for start in starts
        ]
        peak_resident_tokens = 0
        while True:
            self._play_opponents(batch, seats)
            turns = self._open_turns(batch, seats)
            if not turns:
                break
            on_turn(len(turns))
            queries = [
                Query(
                    start=seats[index].start,
                    turn=len(seats[index].turns),
                    state=batch.state(index),
                    prompt_ids=dialogue.prompt_ids,
                    max_new_tokens=self._reply_budget(dialogue),
                )
                for index, dialogue in turns
            ]
            replies = policy.reply(queries)
            reply_tokens = sum(len(r.ids) for r in replies if isinstance(r, Completion))
            resident = sum(len(query.prompt_ids) for query in queries) + reply_tokens
            peak_resident_tokens = max(peak_resident_tokens, resident)
            self._play_replies(batch, seats, turns, replies)
        return Rollout(
            episodes=[self._episode(batch, index, seat) for index, seat in enumerate(seats)],
            peak_resident_tokens=peak_resident_tokens,
        )

    def _running(self, batch: GameBatch, seats: list[_Seat], *, own: bool) -> list[int]:
        """Unfinished games in which it is the learner's turn, or in which it is not."""
        return [
            index
            for index in np.flatnonzero(~batch.done).tolist()
            if seats[index].end is None
            and (int(batch.seats[index]) == seats[index].start.seat) is own
        ]

    def _play_opponents(self, batch: GameBatch, seats: list[_Seat]) -> None:
        while waiting := self._running(batch, seats, own=False):
            actions: list[int] = []
            indices: list[int] = []
            for index in waiting:
                seat = seats[index]
                action = self._opponent_action(batch, index, seat)
                if action is not None:
                    actions.append(action)
                    indices.append(index)
            batch.step(actions, indices)

    def _opponent_action(self, batch: GameBatch, index: int, seat: _Seat) -> int | None:
        mover = int(batch.seats[index])
        action = attempt(self._opponent_move, batch.state(index), mover, seat.rngs[mover])
        if isinstance(action, Failure):
            seat.end = EndReason.OPPONENT_ERROR, action.error
            return None
        if action not in batch.legal(index):
            seat.end = EndReason.OPPONENT_ERROR, f"the opponent's action {action} is not legal"
            return None
        return action

    def _opponent_move(self, state: object, mover: int, rng: np.random.Generator) -> int:
        return operator.index(self._opponent.move(self._game, state, mover, rng))

    def _open_turns(self, batch: GameBatch, seats: list[_Seat]) -> list[tuple[int, Dialogue]]:
        """Write the learner's next prompt in every game that waits for it and still has room."""
        turns: list[tuple[int, Dialogue]] = []
        for index in self._running(batch, seats, own=True):
            seat = seats[index]
            dialogue = self._next_dialogue(batch, index, seat)
            if dialogue is None:
                continue
            if self._reply_budget(dialogue) < 1:
                seat.end = (
                    EndReason.CONTEXT_LIMIT,
                    f"the prompt of {len(dialogue.prompt_ids)} tokens leaves no room for a reply "
                    f"under the limit of {self._max_context_tokens}",
                )
                continue
            seat.dialogue = dialogue
            turns.append((index, dialogue))
        return turns

    def _next_dialogue(self, batch: GameBatch, index: int, seat: _Seat) -> Dialogue | None:
        message = attempt(self._protocol.turn_message, batch.state(index), seat.start.seat)
        if isinstance(message, Failure):
            seat.end = EndReason.ENV_ERROR, message.error
            return None
        if seat.dialogue is None:
            return self._chat.start(self._protocol.system_message(), message)
        return self._chat.extend(seat.dialogue, seat.turns[-1].reply_ids, message)

    def _reply_budget(self, dialogue: Dialogue) -> int:
        return min(self._max_reply_tokens, self._max_context_tokens - len(dialogue.prompt_ids))

    def _play_replies(
        self,
        batch: GameBatch,
        seats: list[_Seat],
        turns: list[tuple[int, Dialogue]],
        replies: Sequence[Completion | Failure],
    ) -> None:
        actions: list[int] = []
        indices: list[int] = []
        for (index, dialogue), completion in zip(turns, replies, strict=True):
            seat = seats[index]
            if isinstance(completion, Failure):
                seat.end = EndReason.ENV_ERROR, completion.error
                continue
            text = self._chat.decode(completion.ids)
            action = self._parsed_action(batch, index, seat, text)
            seat.turns.append(
                Turn(
                    prompt_ids=dialogue.prompt_ids,
                    reply_ids=completion.ids,
                    logprobs=completion.logprobs,
                    versions=completion.versions,
                    text=text,
                    action=action,
                    cut=completion.finish_reason is not FinishReason.STOP,
                )
            )
            if action is not None:
                actions.append(action)
                indices.append(index)
        batch.step(actions, indices)

    def _parsed_action(self, batch: GameBatch, index: int, seat: _Seat, text: str) -> int | None:
        parsed = attempt(self._protocol.parse, text, batch.state(index))
        if isinstance(parsed, Failure):
            seat.end = EndReason.ENV_ERROR, parsed.error
            return None
        if parsed.failure is not None:
            seat.end = _FORFEIT_REASON[parsed.failure], parsed.detail
        return parsed.action

    def _episode(self, batch: GameBatch, index: int, seat: _Seat) -> Episode:
        if seat.end is not None:
            end_reason, detail = seat.end
        elif index in batch.failed:
            end_reason, detail = EndReason.ENV_ERROR, batch.failed[index]
        else:
            end_reason, detail = EndReason.FINISHED, ""
        outcome = 0.0
        if end_reason in _FORFEIT_REASON.values():
            outcome = _FORFEIT_OUTCOME
        elif end_reason is EndReason.FINISHED:
            outcome = float(batch.returns[index, seat.start.seat])
        return Episode(
            start=seat.start,
            turns=tuple(seat.turns),
            moves=batch.moves(index),
            end_reason=end_reason,
            outcome=outcome,
            detail=detail,
        )
