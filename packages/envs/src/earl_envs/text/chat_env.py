"""One episode of any game, all of its seats played by text."""

import copy
from collections.abc import Callable, Hashable
from typing import Any, SupportsIndex, final

import numpy as np

from earl_envs.boundary import Failure, attempt
from earl_envs.checks import whole_number
from earl_envs.end_reason import EndReason
from earl_envs.game import Game
from earl_envs.position import Position
from earl_envs.record import GameRecord, start_position
from earl_envs.text.chat_step import ChatStep
from earl_envs.text.illegal import Verdict, make_illegal_policy
from earl_envs.text.protocol import ParsedReply, ParseFailure, TextProtocol
from earl_envs.text.referee import forfeit_scores, make_move
from earl_envs.text.remaining import RemainingTurns
from earl_envs.text.text_episode import TextEpisode
from earl_envs.text.usage import rough_tokens


@final
class ChatEnv(TextEpisode):
    """An episode of a `Game`, played by text; see `TextEpisode`.

    A seat may also `play` a move that needs no words. `returns` holds the game's own scores if it
    finished, those of `Game.forfeit` if a seat lost by wrong replies.

    Each seat has a history of its own. What another seat replied is in nobody's messages.

    Example:
        env = ChatEnv(make_game("earl/TicTacToe-v0"), illegal="retry(1)")
        env.reset(seed=0)
        while not env.done:
            env.step(player.reply(env.messages(env.seat)))
        env.end_reason, env.returns

    Attributes:
        game: The rules.
    """

    def __init__(
        self,
        game: Game,
        *,
        history: str = "full",
        illegal: str = "forfeit",
        max_turns: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
    ) -> None:
        """Set up episodes of one game.

        Args:
            game: The rules.
            history: What players are sent of their past; see `make_history`.
            illegal: What follows a wrong reply; see `make_illegal_policy`.
            max_turns: Turns after which an episode is cut, all seats together; by default the
                `max_moves` of the game, which only turns spent under `noop` can use up.
            count_tokens: Length of a text, by default `rough_tokens`.
        """
        self.game = game
        self._protocol = TextProtocol(game)
        self._illegal = make_illegal_policy(illegal)
        super().__init__(
            num_seats=game.num_seats,
            history=history,
            max_turns=game.max_moves if max_turns is None else max_turns,
            count_tokens=rough_tokens if count_tokens is None else count_tokens,
        )
        spends = self._illegal.last is Verdict.REPEAT
        self._turn_limit = self._max_turns if spends else min(self._max_turns, game.max_moves)

    @property
    def state(self) -> Hashable:
        """The state of the game; the last sound one if the game failed."""
        return self._reached().state

    @property
    def moves(self) -> tuple[int, ...]:
        """The actions played so far, by all seats."""
        return tuple(self._moves)

    def reset(self, *, seed: int) -> None:
        """Begin an episode whose every chance comes from `seed`, and forget the last one."""
        self._clear(seed=seed)
        system = attempt(self._protocol.system_message)
        if isinstance(system, Failure):
            self._end(EndReason.ENV_ERROR, system.error)
            return
        self._brief([system] * self.num_seats)
        self._enter(attempt(start_position, self.game, seed))

    def step(self, reply: str, *, cut: bool = False) -> ChatStep:
        """Take the reply of the seat to move.

        Args:
            reply: The player's words.
            cut: Whether they were cut at a token limit. Without a complete structured answer or a
                `[name]` at the very end the episode ends as `turn_token_limit`, under every policy.

        Raises:
            ValueError: If the episode is over, or the reply no string.
        """
        self._check_running()
        self._account(reply, cut=cut)
        parsed = attempt(self._protocol.parse, reply, self.state, cut=cut)
        if isinstance(parsed, Failure):
            self._end(EndReason.ENV_ERROR, parsed.error)
            return ChatStep(action=None, detail=parsed.error)
        if parsed.action is not None:
            action = self._make_move(parsed.action)
            return ChatStep(action=action, detail=self.detail if action is None else "")
        if cut and parsed.failure is ParseFailure.UNPARSABLE:
            self._end(EndReason.TURN_TOKEN_LIMIT, f"the reply was cut: {parsed.detail}")
            return ChatStep(action=None, failure=parsed.failure, detail=parsed.detail)
        return self._punish(parsed)

    def play(self, action: SupportsIndex) -> None:
        """Make a move of the seat to move without words.

        Raises:
            ValueError: If the episode is over, or the move no integer or illegal. An opponent's
                illegal move is the caller's to report: `fail(EndReason.OPPONENT_ERROR, ...)`.
        """
        self._check_running()
        legal, move = self._reached().legal, whole_number(action, "action")
        if move not in legal:
            raise ValueError(f"action {move} is illegal for seat {self.seat}, legal: {[*legal]}")
        self._make_move(move)

    def clone(self) -> "ChatEnv":
        """Return an independent copy with the same past and the same future."""
        twin = copy.copy(self)
        twin._unshare()
        return twin

    def record(self, game_id: str, **params: Any) -> GameRecord:  # noqa: ANN401 - as `make_game`
        """Return what replays the moves so far, given the id and parameters of the game."""
        return GameRecord(game_id=game_id, params=params, seed=self.seed, moves=self.moves)

    def predicted_remaining_turns(self, seat: int, past: RemainingTurns | None = None) -> float:
        """Return how many turns `seat` may still have, as far as one can know; 0 when over.

        Args:
            seat: Whose turns; the seats are taken to share the remaining ones evenly.
            past: Learnt from finished games; by default the episode's own limits.
        """
        if self.done:
            return 0.0
        past = past or RemainingTurns(max_moves=self._turn_limit)
        rest = min(past.predict(self.num_turns), self._turn_limit - self.num_turns)
        share = rest / self.num_seats
        return max(1.0, share) if seat == self.seat else share

    def _clear(self, *, seed: int) -> None:
        super()._clear(seed=seed)
        self._moves: list[int] = []
        self._position: Position | None = None
        self._num_wrong_replies = 0
        # A stream of its own: the game's start is drawn from the seed itself.
        self._rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))

    def _unshare(self) -> None:
        super()._unshare()
        self._moves, self._rng = [*self._moves], copy.deepcopy(self._rng)

    def _reached(self) -> Position:
        if self._position is None:
            raise ValueError(f"there is no state: {self.detail or 'call reset(seed=...) first'}")
        return self._position

    def _news(self, seat: int) -> str:
        return self._protocol.turn_message(self.state, seat)

    def _punish(self, parsed: ParsedReply) -> ChatStep:
        self._num_wrong_replies += 1
        verdict = self._illegal.decide(self._num_wrong_replies)
        action = None
        if verdict is Verdict.FORFEIT:
            self._forfeit(parsed)
        elif verdict is Verdict.EXPLAIN:
            self._ask(f"{parsed.detail}. Reply again.\n")
        elif verdict is Verdict.REPEAT:
            self._end_turn()
            self._ask()
        else:
            legal = self._reached().legal
            action = self._make_move(legal[int(self._rng.integers(len(legal)))])
        played = action is not None
        return ChatStep(
            action=action, failure=parsed.failure, detail=parsed.detail, substituted=played
        )

    def _forfeit(self, parsed: ParsedReply) -> None:
        scores = attempt(forfeit_scores, self.game, self.seat)
        if isinstance(scores, Failure):
            self._end(EndReason.ENV_ERROR, scores.error)
        else:
            self._end(EndReason(parsed.failure), parsed.detail, scores)

    def _make_move(self, action: int) -> int | None:
        reached = attempt(make_move, self.game, self.state, action, num_moves=len(self._moves) + 1)
        if not isinstance(reached, Failure):
            self._moves.append(action)
            self._end_turn()
        self._enter(reached)
        return None if isinstance(reached, Failure) else action

    def _end_turn(self) -> None:
        self.num_turns += 1
        self._num_wrong_replies = 0

    def _enter(self, reached: Position | Failure) -> None:
        if isinstance(reached, Failure):
            self._end(EndReason.ENV_ERROR, reached.error)
            return
        self._position = reached
        self.seat = reached.seat
        if reached.returns is not None:
            self._end(EndReason.FINISHED, "", reached.returns)
        else:
            self._ask()

    def _ask(self, complaint: str = "") -> None:
        if self._out_of_turns():
            return
        message = attempt(self._protocol.turn_message, self.state, self.seat)
        if isinstance(message, Failure):
            self._end(EndReason.ENV_ERROR, message.error)
        else:
            self._message = complaint + message
