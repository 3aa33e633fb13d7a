"""Compiled Monte-Carlo tree search on the boards of Connect Four and Tic-Tac-Toe.

UCT with one random play-out per simulation and values between -1 and 1: L. Kocsis and C.
Szepesvári, "Bandit based Monte-Carlo Planning" (2006). Positions whose value is certain keep it:
M. Winands, Y. Björnsson and J.-T. Saito, "Monte-Carlo Tree Search Solver" (2008).
"""

# numba has no type stubs, and `no_type_check` keeps run-time checkers out of what it compiles.
# pyright: reportUntypedFunctionDecorator=false, reportUnknownParameterType=false

from typing import no_type_check

import numpy as np
from numba import njit
from numpy.typing import NDArray

Chance = NDArray[np.uint64]
Tree = tuple[
    NDArray[np.int64],  # the move that leads to a node
    NDArray[np.int32],  # its first child
    NDArray[np.int32],  # its number of children
    NDArray[np.int32],  # its visits
    NDArray[np.float64],  # the sum of its results, for the side that moved there
    NDArray[np.int8],  # its result if that is certain, for the same side
]

CONNECT_FOUR, TIC_TAC_TOE = 0, 1
_FLOOR = sum(1 << 7 * column for column in range(7))
_BOARD = _FLOOR * 0b111111
_CELLS = 0b111111111
_LINES = (0o700, 0o070, 0o007, 0o444, 0o222, 0o111, 0o421, 0o124)
_MAX_MOVES = 42
_UNKNOWN = 2


@njit(cache=True)
@no_type_check
def legal_moves(taken: int, board: int) -> int:
    """Return the cells that the next stone may take, as a mask."""
    if board == CONNECT_FOUR:
        return taken + _FLOOR & _BOARD
    return _CELLS ^ taken


@njit(cache=True)
@no_type_check
def has_line(cells: int, board: int) -> bool:
    """Return whether these stones win."""
    if board == CONNECT_FOUR:
        upright = cells & cells >> 1
        level = cells & cells >> 7
        falling = cells & cells >> 6
        rising = cells & cells >> 8
        return (
            upright & upright >> 2
            | level & level >> 14
            | falling & falling >> 12
            | rising & rising >> 16
        ) != 0
    found = False
    for line in _LINES:
        found |= line & ~cells == 0
    return found


@njit(cache=True)
@no_type_check
def _next_random(chance: Chance) -> np.uint64:
    """Advance a xorshift64* generator: S. Vigna, "An experimental exploration" (2016)."""
    x = chance[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    chance[0] = x
    return x * np.uint64(2685821657736338717)


@njit(cache=True)
@no_type_check
def _below(number: int, chance: Chance) -> int:
    return np.int64((_next_random(chance) >> np.uint64(32)) * np.uint64(number) >> np.uint64(32))


@njit(cache=True)
@no_type_check
def _random_move(moves: int, chance: Chance) -> int:
    number, rest = 0, moves
    while rest:
        rest &= rest - 1
        number += 1
    for _ in range(_below(number, chance)):
        moves &= moves - 1
    return moves & -moves


@njit(cache=True)
@no_type_check
def _play_out(own: int, taken: int, board: int, chance: Chance) -> int:
    """Return the result of a random game for the side to move."""
    sign = 1
    while True:
        moves = legal_moves(taken, board)
        if moves == 0:
            return 0
        move = _random_move(moves, chance)
        own |= move
        taken |= move
        if has_line(own, board):
            return sign
        own ^= taken
        sign = -sign


@njit(cache=True)
@no_type_check
def _expand(
    node: int, size: int, own: int, taken: int, board: int, tree: Tree, chance: Chance
) -> int:
    """Append the children of a node in random order and return the new size of the tree."""
    moves, first, number, _, _, certain = tree
    first[node] = size
    rest = legal_moves(taken, board)
    while rest:
        move = _random_move(rest, chance)
        rest ^= move
        moves[size] = move
        if has_line(own | move, board):
            certain[size] = 1
        elif legal_moves(taken | move, board) == 0:
            certain[size] = 0
        size += 1
    number[node] = size - first[node]
    return size


@njit(cache=True)
@no_type_check
def _select(node: int, exploration: float, tree: Tree) -> int:
    """Return a child that wins, else one not visited, else that of the highest upper bound."""
    _, first, number, visits, totals, certain = tree
    scale = exploration * np.sqrt(np.log(visits[node]))
    best, chosen = -np.inf, -1
    for child in range(first[node], first[node] + number[node]):
        if certain[child] == 1:
            return child
        if certain[child] != _UNKNOWN:
            bound = float(certain[child])
        elif visits[child] == 0:
            bound = np.inf
        else:
            bound = totals[child] / visits[child] + scale / np.sqrt(visits[child])
        if bound > best:
            best, chosen = bound, child
    return chosen


@njit(cache=True)
@no_type_check
def _settle(node: int, tree: Tree) -> None:
    """Note a node's value, for the side that moved there, once its children leave no doubt."""
    _, first, number, _, _, certain = tree
    best, is_settled = -1, number[node] > 0
    for child in range(first[node], first[node] + number[node]):
        if certain[child] == 1:
            certain[node] = -1
            return
        if certain[child] == _UNKNOWN:
            is_settled = False
        else:
            best = max(best, certain[child])
    if is_settled:
        certain[node] = -best


@njit(cache=True)
@no_type_check
def _simulate(
    own: int, taken: int, board: int, size: int, exploration: float, tree: Tree, chance: Chance
) -> int:
    """Run one simulation from the root and return the new size of the tree."""
    moves, _, number, visits, totals, certain = tree
    node, depth = 0, 0
    path = np.zeros(_MAX_MOVES + 1, np.int32)
    while visits[node] > 0 and certain[node] == _UNKNOWN:
        if number[node] == 0:
            size = _expand(node, size, own, taken, board, tree, chance)
        node = _select(node, exploration, tree)
        own, taken = own ^ taken, taken | moves[node]
        depth += 1
        path[depth] = node
    result = certain[node]
    if result == _UNKNOWN:
        result = -_play_out(own, taken, board, chance)
    may_settle = certain[node] != _UNKNOWN
    for step in range(depth, -1, -1):
        node = path[step]
        visits[node] += 1
        totals[node] += result
        if may_settle and step < depth:
            _settle(node, tree)
            may_settle = certain[node] != _UNKNOWN
        result = -result
    return size


@njit(cache=True)
@no_type_check
def search(
    own: int, taken: int, board: int, num_simulations: int, exploration: float, seed: int
) -> int:
    """Return the move that a search settles on, as a mask of one cell.

    Args:
        own: Stones of the side to move.
        taken: All stones; the game is not over.
        board: `CONNECT_FOUR` or `TIC_TAC_TOE`, with the bits of that game's state.
        num_simulations: Games played out at most; fewer when the value is certain before.
        exploration: Weight of the confidence term.
        seed: Of all chance in the search.
    """
    capacity = 10 * (num_simulations + 2)
    tree = (
        np.zeros(capacity, np.int64),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.int32),
        np.zeros(capacity, np.float64),
        np.full(capacity, _UNKNOWN, np.int8),
    )
    moves, first, number, visits, _, certain = tree
    chance = np.array([np.uint64(seed) * np.uint64(2) + np.uint64(1)], np.uint64)
    visits[0] = 1
    size = 1
    for _ in range(num_simulations):
        size = _simulate(own, taken, board, size, exploration, tree, chance)
        if certain[0] != _UNKNOWN:
            break
    best = first[0]
    for child in range(first[0] + 1, first[0] + number[0]):
        if _is_better(child, best, tree):
            best = child
    return moves[best]


@njit(cache=True)
@no_type_check
def _is_better(child: int, other: int, tree: Tree) -> bool:
    """Compare by certain result, where uncertain counts as a draw, then by visits and results."""
    _, _, _, visits, totals, certain = tree
    value = 0 if certain[child] == _UNKNOWN else certain[child]
    other_value = 0 if certain[other] == _UNKNOWN else certain[other]
    if value != other_value:
        return value > other_value
    if visits[child] != visits[other]:
        return visits[child] > visits[other]
    return totals[child] > totals[other]
