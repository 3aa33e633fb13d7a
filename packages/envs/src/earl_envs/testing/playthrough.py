"""Games of random legal moves, and the positions they went through."""

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from earl_envs.boundary import Failure, attempt
from earl_envs.game import Game
from earl_envs.position import Position, examine
from earl_envs.testing.finding import Finding


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Playthrough:
    """A game played with uniformly drawn legal moves, up to its end or its first fault."""

    game: Game
    """The rules."""
    seed: int
    """Gave the start."""
    moves: tuple[int, ...]
    """The moves that were made."""
    positions: tuple[Position, ...]
    """The start and the position after every move that led to a sound one."""
    fault: Finding | None
    """Why the game could not be played to its end."""

    def visit(self, place: int) -> "Visit":
        """Return the position after `place` moves."""
        return Visit(play=self, place=place)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """A position of a playthrough, and the way to it."""

    play: Playthrough
    """The game."""
    place: int
    """Number of moves before the position."""

    @property
    def position(self) -> Position:
        """What the rules say here."""
        return self.play.positions[self.place]

    @property
    def state(self) -> Any:  # noqa: ANN401 - each game has its own
        """The game's own state."""
        return self.position.state

    @property
    def moves(self) -> tuple[int, ...]:
        """The moves that led here."""
        return self.play.moves[: self.place]

    @property
    def seats(self) -> range:
        """All seats of the game."""
        return range(self.play.game.num_seats)

    def actions(self, rng: np.random.Generator, limit: int) -> list[int]:
        """Return the legal actions here, or `limit` of them drawn by chance."""
        legal = self.position.legal
        if len(legal) <= limit:
            return list(legal)
        return rng.choice(np.array(legal), limit, replace=False).tolist()

    def finding(self, wrong: str) -> Finding:
        """Return what is wrong here."""
        return locate(self.play.game, self.play.seed, self.moves, self.state, wrong)


def locate(
    game: Game,
    seed: int,
    moves: tuple[int, ...],
    state: Any,  # noqa: ANN401 - it may be the very thing that is wrong
    wrong: str,
) -> Finding:
    """Return what is wrong in a state, with what the game shows of it."""
    seat = attempt(game.seat, state)
    board = attempt(game.text, state, seat if isinstance(seat, int) else 0)
    shown = board.error if isinstance(board, Failure) else str(board)
    return Finding(wrong=wrong, seed=seed, moves=moves, board=shown)


def play_randomly(game: Game, *, seed: int, stream: int = 1) -> Playthrough:
    """Play one game from the start that `seed` gives; the rules' faults end it.

    Each `stream` makes other moves.
    """
    rng = np.random.default_rng([seed, stream])
    moves: list[int] = []
    positions: list[Position] = []

    def ended(fault: Finding | None) -> Playthrough:
        return Playthrough(
            game=game, seed=seed, moves=tuple(moves), positions=tuple(positions), fault=fault
        )

    state = attempt(game.initial, np.random.default_rng(seed))
    if isinstance(state, Failure):
        return ended(Finding(wrong=f"initial() raises {state.error}", seed=seed))
    while True:
        reached = _examine(game, state)
        if isinstance(reached, str):
            return ended(locate(game, seed, tuple(moves), state, reached))
        positions.append(reached)
        if reached.returns is not None:
            return ended(None)
        if len(moves) >= game.max_moves:
            wrong = f"still running after max_moves = {game.max_moves} moves"
            return ended(locate(game, seed, tuple(moves), state, wrong))
        move = reached.legal[rng.integers(len(reached.legal))]
        following = attempt(game.apply, state, move)
        if isinstance(following, Failure):
            wrong = f"legal() lists action {move}, but apply() raises {following.error}"
            return ended(locate(game, seed, tuple(moves), state, wrong))
        moves.append(move)
        state = following


def _examine(game: Game, state: object) -> Position | str:
    hashed = attempt(hash, state)
    if isinstance(hashed, Failure):
        return f"a state must be hashable, got a {type(state).__name__}"
    reached = attempt(examine, game, state)
    return reached.error if isinstance(reached, Failure) else reached
