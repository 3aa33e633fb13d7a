"""Compiled search on Connect Four's board of seven columns and six rows.

A position is `own`, the stones of the side to move, and `taken`, all stones, as bits
7 * column + row: see `earl_envs.games.connect_four`. Threat masks, the score of a position and the
move ordering follow Pascal Pons, "Solving Connect 4" (http://blog.gamesolver.org).

A score is 0 for a draw, k when the side to move wins with its k-th stone from the end, and -k when
the other side does: a sooner win scores higher.
"""

# numba has no type stubs, and `no_type_check` keeps run-time checkers out of what it compiles.
# pyright: reportUntypedFunctionDecorator=false, reportUnknownParameterType=false

from typing import no_type_check

import numpy as np
from numba import njit
from numpy.typing import NDArray

Cells = NDArray[np.int64]

NUM_COLUMNS, NUM_CELLS = 7, 42
MAX_SCORE = 21
FLOOR = sum(1 << 7 * column for column in range(NUM_COLUMNS))
BOARD = FLOOR * 0b111111
_COLUMN = 0b111111
_CENTRE_FIRST = (3, 2, 4, 1, 5, 0, 6)
_MAX_SHALLOW = 15
_MAX_MIRRORED = 13
# 2**64 divided by the golden ratio, as a signed integer: D. Knuth, TAOCP 3, section 6.4.
_GOLDEN = -7046029254386353131
_LOWER, _UPPER = 64, 128


@njit(cache=True)
@no_type_check
def count_bits(cells: int) -> int:
    """Return the number of stones in a mask."""
    number = 0
    while cells:
        cells &= cells - 1
        number += 1
    return number


@njit(cache=True)
@no_type_check
def has_four(cells: int) -> bool:
    """Return whether a mask holds four in a row."""
    pairs = cells & cells >> 1
    if pairs & pairs >> 2:
        return True
    pairs = cells & cells >> 7
    if pairs & pairs >> 14:
        return True
    pairs = cells & cells >> 6
    if pairs & pairs >> 12:
        return True
    pairs = cells & cells >> 8
    return pairs & pairs >> 16 != 0


@njit(cache=True)
@no_type_check
def mirror(cells: int) -> int:
    """Return the mask with its columns in the opposite order."""
    swapped = cells & 127 << 21
    swapped |= (cells & 127) << 42 | cells >> 42 & 127
    swapped |= (cells & 127 << 7) << 28 | cells >> 28 & 127 << 7
    return swapped | (cells & 127 << 14) << 14 | cells >> 14 & 127 << 14


@njit(cache=True)
@no_type_check
def winning_cells(own: int, taken: int) -> int:
    """Return the empty cells, reachable now or not, that give `own` four in a row."""
    cells = own << 1 & own << 2 & own << 3
    for step in (6, 7, 8):
        pairs = own << step & own << 2 * step
        cells |= pairs & (own << 3 * step | own >> step)
        pairs = own >> step & own >> 2 * step
        cells |= pairs & (own << step | own >> 3 * step)
    return cells & (BOARD ^ taken)


@njit(cache=True)
@no_type_check
def safe_moves(own: int, taken: int) -> int:
    """Return the moves after which the other side cannot win at once, 0 if there is none."""
    moves = taken + FLOOR & BOARD
    threats = winning_cells(own ^ taken, taken)
    forced = moves & threats
    if forced:
        if forced & forced - 1:
            return 0
        moves = forced
    return moves & ~(threats >> 1)


@njit(cache=True)
@no_type_check
def _lookahead(own: int, taken: int, depth: int, alpha: int, beta: int) -> int:
    """Value of a position `depth` moves deep: the depth left at a win, 0 if none is in sight."""
    moves = taken + FLOOR & BOARD
    if moves & winning_cells(own, taken):
        return depth
    if depth == 1 or moves == 0:
        return 0
    moves = safe_moves(own, taken)
    if moves == 0:
        return 1 - depth
    if depth == 2:
        return 0
    best = -depth
    for column in _CENTRE_FIRST:
        move = moves & _COLUMN << 7 * column
        if move:
            value = -_lookahead(own ^ taken, taken | move, depth - 1, -beta, -max(alpha, best))
            best = max(best, value)
            if best >= beta:
                return best
    return best


@njit(cache=True)
@no_type_check
def lookahead_moves(own: int, taken: int, depth: int) -> int:
    """Return the best moves of a negamax search `depth` >= 1 moves deep, as a mask of cells."""
    moves = taken + FLOOR & BOARD
    wins = moves & winning_cells(own, taken)
    if wins or depth == 1:
        return wins if wins else moves
    best, chosen = -depth - 1, 0
    for column in _CENTRE_FIRST:
        move = moves & _COLUMN << 7 * column
        if move:
            # A window that leaves room for equal values: all of the best moves are wanted.
            value = -_lookahead(own ^ taken, taken | move, depth - 1, -depth, 1 - best)
            if value > best:
                best, chosen = value, move
            elif value == best:
                chosen |= move
    return chosen


@njit(cache=True)
@no_type_check
def order_moves(own: int, taken: int, moves: int, ordered: Cells) -> int:
    """Write moves into `ordered`, those that leave most winning cells first; return their number.

    Equal ones go from the centre outwards.
    """
    number = 0
    for column in _CENTRE_FIRST:
        move = moves & _COLUMN << 7 * column
        if move:
            score = count_bits(winning_cells(own | move, taken | move))
            place = number
            while place > 0 and ordered[place - 1] >> 56 < score:
                ordered[place] = ordered[place - 1]
                place -= 1
            ordered[place] = score << 56 | move
            number += 1
    for place in range(number):
        ordered[place] &= BOARD
    return number


@njit(cache=True)
@no_type_check
def _known_bounds(entry: int, key: int, num: int) -> tuple[int, int]:
    """Return between what the score must be: neither side wins now, and what is remembered."""
    low, high = -((NUM_CELLS - 2 - num) // 2), (NUM_CELLS - 1 - num) // 2
    if entry >> 8 == key:
        bound = (entry & 63) - 32
        if entry & _LOWER:
            low = max(low, bound)
        elif entry & _UPPER:
            high = min(high, bound)
    return low, high


@njit(cache=True)
@no_type_check
def _search(
    own: int, taken: int, num: int, alpha: int, beta: int, shallow: Cells, deep: Cells, work: Cells
) -> int:
    """Alpha-beta of a position in which the side to move cannot win at once."""
    work[NUM_CELLS, 0] += 1
    moves = safe_moves(own, taken)
    if moves == 0:
        return -((NUM_CELLS - num) // 2)
    if num >= NUM_CELLS - 2:
        return 0
    table = shallow if num <= _MAX_SHALLOW else deep
    key = own + taken
    if num <= _MAX_MIRRORED:
        key = min(key, mirror(key))
    slot = key * _GOLDEN >> 22 & table.size - 1
    low, high = _known_bounds(table[slot], key, num)
    if low >= beta or low == high:
        return low
    if high <= alpha:
        return high
    alpha, beta = max(alpha, low), min(beta, high)
    ordered = work[num]
    for place in range(order_moves(own, taken, moves, ordered)):
        move = ordered[place]
        score = -_search(own ^ taken, taken | move, num + 1, -beta, -alpha, shallow, deep, work)
        if score >= beta:
            table[slot] = key << 8 | _LOWER | score + 32
            return score
        alpha = max(alpha, score)
    table[slot] = key << 8 | _UPPER | alpha + 32
    return alpha


@njit(cache=True)
@no_type_check
def search_window(
    own: int, taken: int, alpha: int, beta: int, shallow: Cells, deep: Cells, work: Cells
) -> int:
    """Return the score of a position if it is inside (alpha, beta), else a bound on that side.

    Args:
        own: Stones of the side to move.
        taken: All stones; the game is not over.
        alpha: The result is exact only above this score.
        beta: The result is exact only below this score.
        shallow: Remembered positions of up to 15 stones, a power of two long, zero at first.
        deep: Remembered positions of more stones.
        work: [43, 8]; counts the positions that were searched in `work[42, 0]`.
    """
    num = count_bits(taken)
    if taken + FLOOR & winning_cells(own, taken):
        return (NUM_CELLS + 1 - num) // 2
    return _search(own, taken, num, alpha, beta, shallow, deep, work)


@njit(cache=True)
@no_type_check
def solve(own: int, taken: int, shallow: Cells, deep: Cells, work: Cells) -> int:
    """Return the score of a position: first its sign, then by halving what is left."""
    num = count_bits(taken)
    low, high, middle = -((NUM_CELLS - num) // 2), (NUM_CELLS + 1 - num) // 2, 0
    while low < high:
        score = search_window(own, taken, middle, middle + 1, shallow, deep, work)
        if score <= middle:
            high = score
        else:
            low = score
        middle = (low + high) // 2
    return low


@njit(cache=True)
@no_type_check
def optimal_moves(own: int, taken: int, shallow: Cells, deep: Cells, work: Cells) -> int:
    """Return the moves that win soonest or lose latest, as a mask of cells."""
    moves = taken + FLOOR & BOARD
    wins = moves & winning_cells(own, taken)
    if wins:
        return wins
    safe = safe_moves(own, taken)
    if safe == 0:
        return moves
    target = -solve(own, taken, shallow, deep, work)
    chosen = 0
    for column in _CENTRE_FIRST:
        move = safe & _COLUMN << 7 * column
        if move:
            window = (target, target + 1)
            score = search_window(own ^ taken, taken | move, *window, shallow, deep, work)
            if score <= target:
                chosen |= move
    return chosen
