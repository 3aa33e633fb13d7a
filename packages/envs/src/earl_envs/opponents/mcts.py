"""Monte-Carlo tree search."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import cast, final

import numpy as np

from earl_envs.game import Game, State
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.opponents.base import whole_number
from earl_envs.opponents.compiled import has_numba, is_usual_connect_four
from earl_envs.opponents.zero_sum import draw_best

# Every simulation keeps a node: these take gigabytes.
_MAX_SIMULATIONS = 10_000_000


@final
class Mcts:
    """Plays the move that most simulated games went through.

    Every seat is taken to want the best for itself, so it plays games of any number of seats:
    maxn, C. Luckhardt and K. Irani (1986), with the confidence bounds of UCT, L. Kocsis and C.
    Szepesvári, "Bandit based Monte-Carlo Planning" (2006). Where a game hides something, every
    simulation draws it anew and all share one tree: single-observer information set MCTS, P.
    Cowling, E. Powley and D. Whitehouse (2012). Connect Four on its usual board and Tic-Tac-Toe
    are searched by a compiled kernel where numba is installed.
    """

    def __init__(self, *, num_simulations: int, exploration: float | int = 2.0) -> None:
        """Set the effort.

        Args:
            num_simulations: Games simulated per move.
            exploration: Weight of the confidence term for scores between -1 and 1; sqrt(2) for
                scores between 0 and 1, as in UCB1, is 2 sqrt(2) here.
        """
        if num_simulations < 1:
            raise ValueError(f"num_simulations must be >= 1, got {num_simulations}")
        if num_simulations > _MAX_SIMULATIONS:
            raise ValueError(
                f"num_simulations must be <= {_MAX_SIMULATIONS}, got {num_simulations}"
            )
        if not exploration >= 0:
            raise ValueError(f"exploration must be >= 0, got {exploration}")
        self._num_simulations = num_simulations
        self._exploration = float(exploration)

    @classmethod
    def from_text(cls, num_simulations: str) -> "Mcts":
        """Read the number of simulations of a spec."""
        return cls(
            num_simulations=whole_number(num_simulations, what="SIMULATIONS", most=_MAX_SIMULATIONS)
        )

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Search and return the most visited move, at random among equals."""
        if _has_kernel(game):
            return self._compiled_move(game, cast("tuple[int, int]", state), seat, rng)
        search = _Search(game, exploration=self._exploration, rng=rng)
        for _ in range(self._num_simulations):
            search.simulate(game.resample(state, seat, rng))
        children = search.root.children
        return draw_best({action: child.num_visits for action, child in children.items()}, rng)

    def _compiled_move(
        self, game: Game, stones: tuple[int, int], seat: int, rng: np.random.Generator
    ) -> int:
        from earl_envs.opponents import mcts_kernel as kernel

        small = type(game) is TicTacToe
        board = kernel.TIC_TAC_TOE if small else kernel.CONNECT_FOUR
        seed = int(rng.integers(2**62))
        taken = stones[0] | stones[1]
        effort = (self._num_simulations, self._exploration, seed)
        cell = int(kernel.search(stones[seat], taken, board, *effort)).bit_length() - 1
        return cell if small else cell // 7


def _has_kernel(game: Game) -> bool:
    # A subclass may have other rules.
    return (type(game) is TicTacToe or is_usual_connect_four(game)) and has_numba()


@final
@dataclass(slots=True, kw_only=True)
class _Node:
    """A history of moves; its numbers are those of the move that led here."""

    totals: list[float]
    """Sum of every seat's scores."""
    num_visits: int = 0
    num_available: int = 0
    """Simulations that could have come here from the node above."""
    children: "dict[int, _Node]" = field(default_factory=dict[int, "_Node"])


@final
class _Search:
    """One tree, grown by a leaf per simulation."""

    def __init__(self, game: Game, *, exploration: float, rng: np.random.Generator) -> None:
        self.root = _Node(totals=[0.0] * game.num_seats)
        self._game = game
        self._exploration = exploration
        self._rng = rng
        self._lowest, self._highest = math.inf, -math.inf

    def simulate(self, state: Hashable) -> None:
        """Walk down the tree from `state`, add a node, play out at random, note the scores."""
        node, path = self.root, [self.root]
        returns = self._game.returns(state)
        while returns is None:
            legal = self._game.legal(state)
            untried = [action for action in legal if action not in node.children]
            for action in legal:
                if action in node.children:
                    node.children[action].num_available += 1
            if untried:
                action = untried[self._rng.integers(len(untried))]
                totals = [0.0] * self._game.num_seats
                node.children[action] = _Node(totals=totals, num_available=1)
            else:
                action = self._promising(node, legal, self._game.seat(state))
            state, node = self._game.apply(state, action), node.children[action]
            path.append(node)
            if untried:
                returns = self._play_out(state)
                break
            returns = self._game.returns(state)
        self._note(path, returns)

    def _promising(self, node: _Node, legal: Sequence[int], seat: int) -> int:
        return max(legal, key=lambda action: self._bound(node.children[action], seat))

    def _bound(self, child: _Node, seat: int) -> float:
        """Upper confidence bound: mean + exploration * sqrt(ln available / visits)."""
        mean, spread = child.totals[seat] / child.num_visits, self._highest - self._lowest
        # The range of the scores seen so far becomes [-1, 1], so that one weight suits every game.
        mean = 2 * (mean - self._lowest) / spread - 1 if spread else 0.0
        return mean + self._exploration * math.sqrt(
            math.log(child.num_available) / child.num_visits
        )

    def _play_out(self, state: Hashable) -> Sequence[float]:
        for _ in range(self._game.max_moves + 1):
            returns = self._game.returns(state)
            if returns is not None:
                return returns
            legal = self._game.legal(state)
            state = self._game.apply(state, legal[self._rng.integers(len(legal))])
        raise ValueError(f"the game still runs after max_moves = {self._game.max_moves} moves")

    def _note(self, path: Sequence[_Node], returns: Sequence[float]) -> None:
        self._lowest = min(self._lowest, *returns)
        self._highest = max(self._highest, *returns)
        for node in path:
            node.num_visits += 1
            for seat, score in enumerate(returns):
                node.totals[seat] += score
