"""This package's opponents in Connect Four: search, perfect play and its opening book."""

import time
from collections.abc import Iterator

import numpy as np
from driver import Options, answer, parse_options, rates, summary
from earl_envs.games.connect_four import ConnectFour
from earl_envs.opponents.base import make_opponent
from earl_envs.opponents.connect_four_book import (
    MAX_STONES,
    book_column,
    canonical_key,
    shipped_book,
)
from earl_envs.opponents.connect_four_solver import ConnectFourSolver

State = tuple[int, int]
NUM_STONES_SOLVED = 10
_GAME = ConnectFour()


def quiet_positions(num_positions: int, num_stones: range) -> list[State]:
    """Return random running positions in which nobody has a move that wins at once."""
    rng = np.random.default_rng(0)
    found: list[State] = []
    while len(found) < num_positions:
        state = _GAME.initial(rng)
        for _ in range(int(rng.integers(num_stones.start, num_stones.stop))):
            if _GAME.returns(state) is None:
                state = _GAME.apply(state, int(rng.choice(_GAME.legal(state))))
        if _GAME.returns(state) is None and not wins_at_once(state):
            found.append(state)
    return found


def wins_at_once(state: State) -> bool:
    """Say whether the side to move can end the game now."""
    return any(_GAME.returns(_GAME.apply(state, action)) for action in _GAME.legal(state))


def search_rates(spec: str, positions: list[State], options: Options) -> list[float]:
    """Return moves per second over some positions."""
    opponent, rng = make_opponent(spec), np.random.default_rng(0)

    def run(num_calls: int) -> int:
        for _ in range(num_calls):
            for state in positions:
                opponent.move(_GAME, state, _GAME.seat(state), rng)
        return num_calls * len(positions)

    return rates(run, options)


def solving_rates(num_positions: int) -> list[float]:
    """Return moves per second of perfect play, position by position."""
    opponent, rng = make_opponent("perfect"), np.random.default_rng(0)
    stones = range(NUM_STONES_SOLVED, NUM_STONES_SOLVED + 1)
    warm_up, *positions = quiet_positions(num_positions + 1, stones)
    opponent.move(_GAME, warm_up, _GAME.seat(warm_up), rng)
    measured: list[float] = []
    for state in positions:
        start = time.perf_counter()
        opponent.move(_GAME, state, _GAME.seat(state), rng)
        measured.append(1 / (time.perf_counter() - start))
    return measured


def resolve_book(met: list[tuple[State, int]], num_positions: int) -> int:
    """Return how many of some positions the book has wrong: a value, or a move that changes it.

    Positions come with the book's move. Those with the most stones are drawn from, as they are
    solved in the least time.
    """
    rng, solver = np.random.default_rng(0), ConnectFourSolver()
    late = [(state, move) for state, move in met if sum(state).bit_count() == MAX_STONES]
    num_wrong = 0
    for place in rng.choice(len(late), num_positions, replace=False):
        state, column = late[place]
        seat, taken = _GAME.seat(state), state[0] | state[1]
        reached = _GAME.apply(state, column)
        returns = _GAME.returns(reached)
        value = np.sign(solver.score(state[seat], taken))
        kept = (
            -np.sign(solver.score(reached[1 - seat], reached[0] | reached[1]))
            if returns is None
            else returns[seat]
        )
        stored = shipped_book()[canonical_key(state[seat], taken)[0]].value
        num_wrong += not value == kept == stored
    return num_wrong


def book_coverage() -> tuple[list[tuple[State, int]], int]:
    """Return which positions the player's own play meets and its moves, and how many it lacks.

    Walked from both seats against every move of the other side, up to mirror images.
    """
    met: list[tuple[State, int]] = []
    known: set[tuple[int, int]] = set()
    missing: set[tuple[int, int]] = set()
    for own_seat in (0, 1):
        waiting = [_GAME.initial(np.random.default_rng(0))]
        while waiting:
            state = waiting.pop()
            if _GAME.returns(state) is not None or (state[0] | state[1]).bit_count() > MAX_STONES:
                continue
            seat = _GAME.seat(state)
            columns = _GAME.legal(state)
            if seat == own_seat:
                own, taken = state[seat], state[0] | state[1]
                place = (seat, canonical_key(own, taken)[0])
                column = book_column(own, taken)
                if place in known or column is None:
                    (missing if column is None else known).add(place)
                    continue
                known.add(place)
                met.append((state, column))
                columns = [column]
            waiting.extend(_GAME.apply(state, column) for column in columns)
    return met, len(missing)


def rows(options: Options) -> Iterator[dict[str, object]]:
    """Measure every opponent."""
    empty = [_GAME.initial(np.random.default_rng(0))]
    common: dict[str, object] = {"game": "connect_four_search", "batch": 1, "observed": False}
    for spec, positions in (
        ("negamax:6", quiet_positions(96, range(23))),
        ("mcts:1000", empty),
    ):
        measured = search_rates(spec, positions, options)
        yield {**common, "variant": spec, **summary(measured)}
    num_positions = 3 * options.num_repeats
    yield {**common, "variant": "perfect, 10 stones", **summary(solving_rates(num_positions))}
    met, num_missing = book_coverage()
    yield {
        **common,
        "variant": "book",
        "num_positions": len(met) + num_missing,
        "num_missing": num_missing,
        "num_resolved": num_positions,
        "num_wrong": resolve_book(met, num_positions),
    }


if __name__ == "__main__":
    answer("earl", "earl-envs", rows(parse_options()))
