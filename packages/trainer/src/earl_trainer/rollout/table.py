"""One table of a collection: the games that are played at it and what became of them."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import final

import numpy as np
from earl_envs import (
    CUTS,
    FAILURES,
    EndReason,
    Failure,
    Game,
    GameBatch,
    Opponent,
    TextProtocol,
    attempt,
    episode_rng,
)
from earl_envs.text.referee import forfeit_scores

from earl_trainer.rollout.chat import Dialogue
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.seeding import derive_seed
from earl_trainer.types import Episode, EpisodeStart, PlayedGame, Turn

Verdict = tuple[EndReason, float, str]
"""How a game ended for one seat: reason, score, what went wrong."""


def game_seed(start: EpisodeStart, number: int) -> int:
    """Seed game `number` of an episode's context, counted from 0."""
    return start.game_seed if number == 0 else derive_seed(start.game_seed, "next game", number)


@dataclass(slots=True, kw_only=True)
class Talker:
    """A seat whose moves come as replies, in a context that no other seat's tokens enter."""

    start: EpisodeStart
    policy: ReplyPolicy
    learns: bool = True
    """Whether its replies are an episode of the learner; an opponent's are not kept."""
    dialogue: Dialogue | None = None
    turns: list[Turn] = field(default_factory=list[Turn])
    games: list[PlayedGame] = field(default_factory=list[PlayedGame])
    first_turn: int = 0
    """Index among `turns` of the first reply in the present game."""

    def episode(self, *, min_return: float | int) -> Episode:
        """Return what the seat has played, of a game whose lowest score is `min_return`."""
        return Episode(
            start=self.start,
            turns=tuple(self.turns),
            games=tuple(self.games),
            min_return=min_return,
        )

    @property
    def context_tokens(self) -> int:
        """Length of the context after the last reply."""
        if not self.turns:
            return 0
        return len(self.turns[-1].prompt_ids) + len(self.turns[-1].reply_ids)

    def untold_games(self) -> range:
        """Return the numbers of the ended games of whose end the seat has not been told.

        Its last turn told of all games before the one it was in.
        """
        num_begun = sum(game.first_turn < len(self.turns) for game in self.games)
        if len(self.turns) > self.first_turn:
            num_begun += 1
        return range(max(0, num_begun - 1), len(self.games))


@final
class Table:
    """Games played one after the other by the same seats, which keep their contexts.

    Lifecycle: `mover` says whose turn it is. A scripted seat's move comes from `opponent_action`; a
    talker's from its reply, or `forfeit` and `stop` say why there is none. Moves are made in
    `batches[number]`, after which `settle` looks at what they led to. A learner's forfeit loses one
    game; `stop` ends the episode, and so does a forfeit of an opponent that replies: an opponent
    that fails is beaten by nobody.

    Args:
        game: The rules.
        game_id: Names the opponent's streams of chance.
        batches: Game `number` of every table is in `batches[number]`.
        index: This table's place in each batch.
        talkers: Seat -> who replies there.
        opponent: Moves at all other seats; None where none is left.
        member: Name of the opponent within its pool.
    """

    def __init__(
        self,
        game: Game,
        *,
        game_id: str,
        batches: Sequence[GameBatch],
        index: int,
        talkers: Mapping[int, Talker],
        opponent: Opponent | None = None,
        member: str = "",
    ) -> None:
        self._game = game
        self._game_id = game_id
        self._batches = batches
        self.index = index
        self.talkers = talkers
        self._opponent = opponent
        self.member = member
        self._start = next(iter(talkers.values())).start
        self._closed = False
        self._final_states: list[object] = []
        self._begin(0)

    @property
    def mover(self) -> int:
        """The seat to move, -1 when the last game is over."""
        return -1 if self._closed else int(self._batches[self.number].seats[self.index])

    @property
    def state(self) -> object:
        """State of the present game."""
        return self._batches[self.number].state(self.index)

    def message(self, protocol: TextProtocol, seat: int) -> str:
        """Return what a talker is told when its turn comes.

        Its first message after the end of games begins, for each of them, with the last position,
        if the rules ended it, and the seat's score: the reward that RL^2 shows its agent
        (Duan et al., 2016, arXiv:1611.02779).

        Raises:
            Exception: Whatever the game's `text` raises.
        """
        talker, lines = self.talkers[seat], list[str]()
        for number in talker.untold_games():
            if self._final_states[number] is not None:
                lines.append(self._game.text(self._final_states[number], seat))
            lines.append(f"Score {talker.games[number].outcome:g}. Next game:")
        return "\n".join([*lines, protocol.turn_message(self.state, seat)])

    def opponent_action(self) -> int | None:
        """Return the scripted opponent's move, or None when that failed and ended the episode."""
        seat, legal = self.mover, self._batches[self.number].legal(self.index)
        action = attempt(self._opponent_move, seat)
        if isinstance(action, Failure):
            self.stop(EndReason.OPPONENT_ERROR, action.error)
        elif action not in legal:
            self.stop(EndReason.OPPONENT_ERROR, f"the opponent's action {action} is not legal")
        else:
            return action
        return None

    def settle(self) -> None:
        """End the present game if the rules ended it or its code failed."""
        batch = self._batches[self.number]
        if self._closed or not batch.done[self.index]:
            return
        if self.index in batch.failed:
            self.stop(EndReason.ENV_ERROR, batch.failed[self.index])
            return
        scores = batch.returns[self.index].tolist()
        self._end_game(
            {seat: (EndReason.FINISHED, scores[seat], "") for seat in self.talkers},
            final_state=self.state,
        )

    def forfeit(self, seat: int, reason: EndReason, detail: str) -> None:
        """End the present game by a reply of `seat` that was no legal move."""
        if not self.talkers[seat].learns:
            self.stop(EndReason.OPPONENT_ERROR, f"the opponent's reply is no move: {detail}")
            return
        scores = attempt(forfeit_scores, self._game, seat)
        if isinstance(scores, Failure):
            self.stop(EndReason.ENV_ERROR, scores.error)
            return
        why = f"seat {seat} forfeited, {reason}: {detail}"
        verdicts = {
            other: (reason, scores[other], detail)
            if other == seat
            else (EndReason.FINISHED, scores[other], why)
            for other in self.talkers
        }
        self._end_game(verdicts, forfeited_by=seat)

    def stop(self, reason: EndReason, detail: str) -> None:
        """End the episode at a limit or by a failure: nobody wins, draws or loses this game."""
        self._end_game(dict.fromkeys(self.talkers, (reason, 0.0, detail)))

    @property
    def opponent(self) -> Opponent:
        """Who picks moves in the seats of no talker; only where there is such a seat."""
        assert self._opponent is not None
        return self._opponent

    def _opponent_move(self, seat: int) -> int:
        move = self.opponent.move(self._game, self.state, seat, self._rngs[seat])
        return operator.index(move)

    def _begin(self, number: int) -> None:
        self.number = number
        self._rngs: dict[int, np.random.Generator] = {
            seat: episode_rng(
                self._start.game_seed, game_id=self._game_id, episode=number, seat=seat
            )
            for seat in range(self._game.num_seats)
            if seat not in self.talkers
        }
        for talker in self.talkers.values():
            talker.first_turn = len(talker.turns)
        self.settle()

    def _end_game(
        self,
        verdicts: Mapping[int, Verdict],
        *,
        final_state: object = None,
        forfeited_by: int | None = None,
    ) -> None:
        moves = self._batches[self.number].moves(self.index)
        for seat, (reason, outcome, detail) in verdicts.items():
            talker = self.talkers[seat]
            talker.games.append(
                PlayedGame(
                    game_seed=game_seed(self._start, self.number),
                    first_turn=talker.first_turn,
                    moves=moves,
                    end_reason=reason,
                    outcome=outcome,
                    detail=detail,
                    forfeited_by=forfeited_by,
                )
            )
        reasons = {reason for reason, _, _ in verdicts.values()}
        self._closed = bool(reasons & (CUTS | FAILURES))
        self._closed |= self.number + 1 == self._start.num_games
        if not self._closed:
            self._final_states.append(final_state)
            self._begin(self.number + 1)
