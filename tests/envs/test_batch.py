"""Stepping many games: any subset, all or nothing, neighbours unharmed."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from earl_envs import (
    Game,
    GameBatch,
    game_ids,
    make_batch,
    make_game,
    register_game,
    start_position,
)
from earl_envs.batch_base import Batch, episode_seed
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.kernels.batch import KernelBatch
from hypothesis import given, settings
from hypothesis import strategies as st

ID = "earl/TicTacToe-v0"


class Fragile(Game):
    """Counts to three; the seed decides which of its methods raises at count two."""

    num_seats, num_actions, max_moves = 2, 2, 3
    faults = ("none", "apply", "legal", "returns", "seat", "endless", "initial")

    def initial(self, rng):
        fault = self.faults[int(rng.integers(len(self.faults)))]
        if fault == "initial":
            raise RuntimeError("initial broke")
        return (fault, 0)

    def _answer(self, method, state, value):
        if state == (method, 2):
            raise RuntimeError(f"{method} broke")
        return value

    def seat(self, state):
        return self._answer("seat", state, state[1] % 2)

    def legal(self, state):
        return self._answer("legal", state, [0, 1])

    def apply(self, state, action):
        fault, count = state
        return self._answer("apply", (fault, count + 1), (fault, count + 1))

    def returns(self, state):
        running = state[1] < 3 or state[0] == "endless"
        return self._answer("returns", state, None if running else (1.0, -1.0))

    def text(self, state, seat):
        return f"{state[1]}"

    def move_name(self, state, action):
        return f"[{action}]"


class Dealt(Game):
    """The start is all chance; one move ends the game."""

    num_seats, num_actions, max_moves = 1, 1, 1

    def initial(self, rng):
        return (int(rng.integers(2**60)), False)

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0]

    def apply(self, state, action):
        return (state[0], True)

    def returns(self, state):
        return (1.0,) if state[1] else None

    def text(self, state, seat):
        return str(state[0])

    def move_name(self, state, action):
        return "[go]"


def _seed_of(fault: str) -> int:
    def drawn(seed: int) -> str:
        return Fragile.faults[int(np.random.default_rng(seed).integers(len(Fragile.faults)))]

    return next(seed for seed in range(1_000) if drawn(seed) == fault)


def _assert_same(batch: Batch, index: int, game: Game, state: object) -> None:
    returns = game.returns(state)
    over = returns is not None
    assert batch.state(index) == state
    assert batch.done[index] == over
    assert batch.seats[index] == (-1 if over else game.seat(state))
    assert batch.legal(index) == ([] if over else game.legal(state))
    assert np.flatnonzero(batch.legal_mask[index]).tolist() == sorted(batch.legal(index))
    scores = np.array(returns or (0.0,) * game.num_seats, np.float32)
    assert batch.returns[index].tolist() == scores.tolist()
    for seat in range(game.num_seats):
        assert batch.text(index, seat) == game.text(state, seat)


@pytest.mark.parametrize("game_id", game_ids())
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32), batch_size=st.integers(1, 3))
def test_subsets_stepped_together_equal_games_played_one_by_one(game_id, seed, batch_size):
    game, rng = make_game(game_id), np.random.default_rng(seed)
    batch = make_batch(game_id, batch_size=batch_size, seed=seed)
    states = [game.initial(np.random.default_rng(s)) for s in batch.seeds]
    moves: list[list[int]] = [[] for _ in states]
    for _ in range(100):
        running = np.flatnonzero(~batch.done)
        chosen = rng.permutation(running)[: rng.integers(0, len(running) + 1)].tolist()
        actions = [int(rng.choice(game.legal(states[index]))) for index in chosen]
        batch.step(actions, chosen)
        for index, action in zip(chosen, actions, strict=True):
            states[index] = game.apply(states[index], action)
            moves[index].append(action)
    for index, state in enumerate(states):
        _assert_same(batch, index, game, state)
        assert batch.moves(index) == tuple(moves[index])
        assert batch.num_moves[index] == len(moves[index])
    assert not batch.failed


def test_running_games_equal_the_rules_too():
    game, batch = make_game(ID), make_batch(ID, batch_size=3, seed=0)
    batch.step([4, 0, 8])
    batch.step([1], [2])
    for index, actions in enumerate([(4,), (0,), (8, 1)]):
        state = (0, 0)
        for action in actions:
            state = game.apply(state, action)
        _assert_same(batch, index, game, state)


def test_default_steps_every_unfinished_game_in_order():
    batch = make_batch(ID, batch_size=3, seed=0)
    for action in (0, 3, 1, 4, 2):
        batch.step([action], [1])
    assert batch.done.tolist() == [False, True, False]
    batch.step([5, 6])
    assert [batch.moves(index) for index in range(3)] == [(5,), (0, 3, 1, 4, 2), (6,)]


def test_finished_game_keeps_its_last_board():
    batch = make_batch(ID, batch_size=1, seed=0)
    for action in (0, 3, 1, 4, 2):
        batch.step([action])
    assert batch.text(0, seat=0) == "X X X\nO O 6\n7 8 9"
    assert batch.returns.tolist() == [[1.0, -1.0]]


@pytest.mark.parametrize(
    ("actions", "indices", "message"),
    [
        ([8, 0], [1, 0], "action 0 is illegal in game 0"),
        ([8, 9], [1, 0], "action 9 is illegal in game 0"),
        ([8, -1], [1, 0], "action -1 is illegal in game 0"),
        ([8, 2**70], [1, 0], f"action {2**70} is illegal in game 0"),
        ([8, 5], [1, 2], "game 2 is over and takes no action, got 5"),
        ([8, 5], [1, 3], r"index must be in 0..2, got 3"),
        ([8, 5], [1, -3], r"index must be in 0..2, got -3"),
        ([8, 5], [1, 1], "got index 1 twice"),
        ([8, 5], [1], "one action per game: got 2 for 1 games"),
        ([8, 5, 6], None, "one action per game: got 3 for 2 games"),
        ([8, 1.5], [1, 0], "every action must be an integer, got 8.0 at place 0"),
        ([True, False], [1, 0], "every action must be an integer, got True at place 0"),
        ([8, None], [1, 0], "every action must be an integer, got None at place 1"),
        (["8", "5"], [1, 0], "every action must be an integer, got '8' at place 0"),
        ([8, 5], np.array([True, False]), "every index must be an integer, got True at place 0"),
        ([[8]], [1], r"expected a flat list of one action each, got shape \(1, 1\)"),
    ],
)
def test_unsound_call_names_the_fault_and_moves_no_game(actions, indices, message):
    batch = make_batch(ID, batch_size=3, seed=0)
    batch.step([0], [0])
    for action in (0, 3, 1, 4, 2):
        batch.step([action], [2])
    before = batch.num_moves.tolist()
    with pytest.raises(ValueError, match=message):
        batch.step(actions, indices)
    assert batch.num_moves.tolist() == before
    assert batch.state(1) == (0, 0)


def test_no_games_to_step_is_no_fault():
    batch = make_batch(ID, batch_size=1, seed=0)
    batch.step([], [])
    assert batch.num_moves.tolist() == [0]


@pytest.mark.parametrize("fault", ["apply", "legal", "returns", "seat"])
def test_game_that_raises_ends_alone(fault):
    batch = GameBatch(Fragile(), seeds=[_seed_of("none"), _seed_of(fault), _seed_of("none")])
    batch.step([0, 0, 0])
    batch.step([1, 1, 1])
    assert batch.done.tolist() == [False, True, False]
    assert dict(batch.failed) == {1: batch.failed[1]}
    assert batch.failed[1].startswith(f"RuntimeError: {fault} broke (")
    assert batch.moves(1) == (0,)
    assert batch.text(1, seat=0) == "1"
    assert batch.legal(1) == []
    assert batch.seats.tolist() == [0, -1, 0]
    batch.step([1, 1])
    assert batch.done.all()
    assert batch.returns.tolist() == [[1.0, -1.0], [0.0, 0.0], [1.0, -1.0]]


def test_game_that_outlives_its_max_moves_fails():
    batch = GameBatch(Fragile(), seeds=[_seed_of("endless")])
    for _ in range(3):
        batch.step([0])
    assert "still running after max_moves = 3 moves" in batch.failed[0]


def test_game_that_cannot_start_leaves_the_others_playing():
    batch = GameBatch(Fragile(), seeds=[_seed_of("initial"), _seed_of("none")])
    assert batch.done.tolist() == [True, False]
    assert batch.legal_mask.tolist() == [[False, False], [True, True]]
    assert batch.moves(0) == ()
    with pytest.raises(ValueError, match="game 0 failed to start: RuntimeError: initial broke"):
        batch.state(0)
    batch.step([1])
    assert batch.num_moves.tolist() == [0, 1]


def test_same_seed_gives_the_same_games_in_a_batch_of_any_size():
    game = Dealt()
    small, large = (make_batch(ID, batch_size=size, seed=5).seeds for size in (2, 5))
    assert large[:2] == small
    assert len(set(large)) == 5
    assert make_batch(ID, batch_size=2, seed=6).seeds != small
    starts = [GameBatch(game, seeds=large).state(index) for index in range(5)]
    assert starts == [GameBatch(game, seeds=[seed]).state(0) for seed in large]
    assert len(set(starts)) == 5


def test_process_global_random_state_is_untouched():
    # In a process of its own, as the type checker of the test run draws from `random` itself.
    code = f"""
import random
import numpy as np
import earl_envs

def global_states():
    return repr((random.getstate(), np.random.get_state()))

before = global_states()
batch = earl_envs.make_batch({ID!r}, batch_size=4, seed=0)
rng = earl_envs.episode_rng(0, game_id={ID!r}, episode=0, seat=0)
opponent = earl_envs.make_opponent("random")
batch.step([opponent.move(batch.game, batch.state(i), 0, rng) for i in range(4)])
assert global_states() == before
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arrays_are_live_and_read_only():
    batch = make_batch(ID, batch_size=1, seed=0)
    seats = batch.seats
    batch.step([0])
    assert seats.tolist() == [1]
    for array in (batch.seats, batch.done, batch.returns, batch.num_moves, batch.episodes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_array_types_are_as_documented():
    batch = make_batch(ID, batch_size=2, seed=0)
    arrays = (batch.seats, batch.done, batch.returns, batch.num_moves, batch.legal_mask)
    assert [array.dtype for array in arrays] == [np.int8, np.bool_, np.float32, np.int32, np.bool_]
    assert batch.returns.shape == (2, 2)
    assert batch.legal_mask.shape == (2, 9)
    assert batch.legal_mask.all()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        (
            {"batch_size": 1, "seed": 0, "backend": "gpu"},
            "must be auto, numba or generic, got 'gpu'",
        ),
        ({"batch_size": 1, "seed": 0, "rows": 3}, "cannot be made with {'rows': 3}"),
        ({"batch_size": 0, "seed": 0}, "batch_size must be >= 1, got 0"),
        ({"batch_size": 1, "seed": -1}, "seed must be >= 0, got -1"),
    ],
)
def test_unsound_batch_is_refused(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make_batch(ID, **kwargs)


def test_unsound_seeds_are_refused():
    with pytest.raises(ValueError, match="seed of game 1 must be >= 0, got -2"):
        GameBatch(Dealt(), seeds=[0, -2])
    with pytest.raises(ValueError, match="at least one seed"):
        GameBatch(Dealt(), seeds=[])


@pytest.mark.parametrize("seat", [-1, 2])
def test_view_of_a_seat_that_is_not_there_is_refused(seat):
    with pytest.raises(ValueError, match=rf"seat must be in 0..1, got {seat}"):
        make_batch(ID, batch_size=1, seed=0).text(0, seat)


def test_queries_refuse_an_index_that_is_not_there():
    batch = make_batch(ID, batch_size=1, seed=0)
    for query in (batch.state, batch.legal, batch.moves):
        with pytest.raises(ValueError, match=r"index must be in 0..0, got -1"):
            query(-1)


class Counter(Game):
    """Two or three moves, as the start says; planes show how many were made."""

    num_seats, num_actions, max_moves = 2, 2, 3

    def initial(self, rng):
        return (int(rng.integers(2, 4)), 0)

    def seat(self, state):
        return state[1] % 2

    def legal(self, state):
        return [0, 1]

    def apply(self, state, action):
        return (state[0], state[1] + 1)

    def returns(self, state):
        return (1.0, -1.0) if state[0] == state[1] else None

    def text(self, state, seat):
        return f"{state[1]} of {state[0]}"

    def move_name(self, state, action):
        return f"[{action}]"

    def planes(self, state, seat):
        return np.array([[[seat, *state]]], np.uint8)


def _start(game: Game, seed: int) -> object:
    return start_position(game, seed).state


def test_restart_begins_the_next_game_of_a_slot_from_a_seed_of_its_own():
    game = Dealt()
    batch = GameBatch(game, seeds=[4, 5])
    batch.step([0, 0])
    batch.restart([1])
    assert batch.done.tolist() == [True, False]
    assert batch.returns.tolist() == [[1.0], [0.0]]
    assert batch.episodes.tolist() == [0, 1]
    assert batch.num_moves.tolist() == [1, 0]
    assert batch.seeds[0] == 4
    assert batch.seeds[1] not in {4, 5}
    assert batch.state(1) == _start(game, batch.seeds[1])
    # Running games make way too; no two games of a slot or of its neighbours are alike.
    seeds = {*batch.seeds}
    for _ in range(3):
        batch.restart([1, 0])
        seeds |= {*batch.seeds}
    assert len(seeds) == 8


@pytest.mark.parametrize(
    ("indices", "message"),
    [([0, 0], "got index 0 twice"), ([0, 2], r"index must be in 0..1, got 2"), ([0.5], "integer")],
)
def test_unsound_restart_leaves_every_game_as_it_was(indices, message):
    batch = GameBatch(Dealt(), seeds=[4, 5])
    with pytest.raises(ValueError, match=message):
        batch.restart(indices)
    assert batch.episodes.tolist() == [0, 0]


def test_autoreset_reports_the_game_that_ended_and_shows_the_next():
    batch = GameBatch(Counter(), seeds=range(20), autoreset=True)
    lengths = [batch.state(index)[0] for index in range(20)]
    assert set(lengths) == {2, 3}
    batch.step([0] * 20)
    batch.step([1] * 20)
    short = np.array(lengths) == 2
    assert batch.done.tolist() == short.tolist()
    assert batch.returns[:, 0].tolist() == short.astype(float).tolist()
    assert batch.episodes.tolist() == short.astype(int).tolist()
    assert batch.seats.tolist() == [0] * 20
    assert batch.num_moves.tolist() == np.where(short, 0, 2).tolist()
    assert batch.final_observations[short, 0, 0].tolist() == [[0, 2, 2]] * short.sum()
    first = int(np.flatnonzero(short)[0])
    assert batch.moves(first) == ()
    assert batch.state(first) == _start(Counter(), batch.seeds[first])
    batch.step([0], [int(np.flatnonzero(~short)[0])])
    assert batch.done.sum() == 1
    assert not batch.done[first]
    assert batch.returns[first].tolist() == [0.0, 0.0]


def test_observations_are_planes_for_the_seat_to_move_and_for_seat_0_at_the_end():
    batch = GameBatch(Counter(), seeds=[_seed_of_length(2), _seed_of_length(3)])
    batch.step([0, 0])
    assert batch.observations[:, 0, 0].tolist() == [[1, 2, 1], [1, 3, 1]]
    batch.step([0, 0])
    assert batch.observations[:, 0, 0].tolist() == [[0, 2, 2], [0, 3, 2]]
    assert batch.observations.dtype == np.uint8
    np.testing.assert_array_equal(batch.observations, batch.final_observations)


def _seed_of_length(length: int) -> int:
    return next(seed for seed in range(100) if _start(Counter(), seed) == (length, 0))


def test_observations_of_a_game_without_planes_are_its_moves():
    batch = GameBatch(Fragile(), seeds=[_seed_of("none"), _seed_of("initial"), _seed_of("none")])
    batch.step([1], [0])
    assert batch.observations.tolist() == [[1, -1, -1], [-1, -1, -1], [-1, -1, -1]]
    assert batch.observations.dtype == np.int32


def test_failed_game_is_restarted_under_autoreset_and_reported_once():
    seeds = [_seed_of("apply"), _seed_of("none")]
    batch = GameBatch(Fragile(), seeds=seeds, autoreset=True)
    batch.step([0, 0])
    batch.step([1, 1])
    assert batch.done.tolist() == [True, False]
    assert batch.failed[0].startswith("RuntimeError: apply broke")
    assert batch.returns.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert batch.final_observations[0].tolist() == [0, -1, -1]
    assert batch.episodes.tolist() == [1, 0]
    batch.step([0], [1])
    assert 0 not in batch.failed


def test_random_actions_are_legal_even_and_tied_to_the_place_in_the_game():
    batch = make_batch("earl/TicTacToe-v0", batch_size=900, seed=2, backend="generic")
    actions = batch.random_actions()
    assert actions.tolist() == batch.random_actions().tolist()
    # Five standard deviations of a binomial count of 900 draws at 1/9.
    counts = np.bincount(actions, minlength=9)
    assert np.abs(counts - 100).max() < 5 * np.sqrt(900 / 9 * 8 / 9)
    batch.step(actions)
    assert batch.random_actions().tolist() != actions.tolist()
    assert batch.legal_mask[np.arange(900), batch.random_actions()].all()
    batch.restart(range(900))
    assert batch.random_actions().tolist() != actions.tolist()


def test_random_actions_leave_finished_games_out():
    batch = make_batch(ID, batch_size=2, seed=0, backend="generic")
    for action in (0, 3, 1, 4, 2):
        batch.step([action], [0])
    assert batch.random_actions().shape == (1,)
    batch.step(batch.random_actions())
    assert batch.num_moves.tolist() == [5, 1]


@pytest.mark.parametrize("backend", ["generic", "numba"])
def test_record_replays_the_game(backend):
    batch = make_batch("earl/ConnectFour-v0", batch_size=3, seed=1, backend=backend)
    batch.restart([1])
    for _ in range(5):
        batch.step(batch.random_actions())
    record = batch.record(1)
    assert record.moves == batch.moves(1)
    assert record.seed == batch.seeds[1]
    assert record.positions()[-1].state == batch.state(1)


def test_record_keeps_the_parameters_of_the_game():
    batch = make_batch("earl/ConnectFour-v0", batch_size=1, seed=1, rows=4, columns=5)
    assert batch.record(0).params == {"rows": 4, "columns": 5}
    assert batch.record(0).positions()[0].legal == (0, 1, 2, 3, 4)


def test_batch_made_of_a_game_has_no_record():
    with pytest.raises(ValueError, match="only a batch of make_batch knows the id"):
        GameBatch(Dealt(), seeds=[0]).record(0)


def test_backend_is_compiled_where_it_can_be():
    kwargs = {"batch_size": 1, "seed": 0}
    assert isinstance(make_batch(ID, **kwargs), KernelBatch)
    assert isinstance(make_batch(ID, **kwargs, backend="generic"), GameBatch)
    assert isinstance(make_batch("earl/ConnectFour-v0", **kwargs, rows=5), GameBatch)
    with pytest.raises(ValueError, match=r"no compiled batch of .*: its rules have no kernel"):
        make_batch("earl/ConnectFour-v0", **kwargs, rows=5, backend="numba")


def test_without_numba_the_general_batch_plays_and_the_extra_is_named():
    code = f"""
import sys
sys.modules["numba"] = None
import earl_envs
batch = earl_envs.make_batch({ID!r}, batch_size=1, seed=0)
batch.step([4])
assert type(batch) is earl_envs.GameBatch
try:
    earl_envs.make_batch({ID!r}, batch_size=1, seed=0, backend="numba")
except ValueError as error:
    assert "pip install earl-envs[fast]" in str(error), error
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_the_package_imports_no_compiler():
    code = "import sys, earl_envs; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


class Misere(TicTacToe):
    """Three in a row lose."""

    def returns(self, state):
        returns = super().returns(state)
        return None if returns is None else (-returns[0], -returns[1])


def test_changed_rules_are_played_as_changed():
    register_game("batch-test/Misere-v0", Misere)
    batch = make_batch("batch-test/Misere-v0", batch_size=1, seed=0)
    assert isinstance(batch, GameBatch)
    for action in (0, 3, 1, 4, 2):
        batch.step([action])
    assert batch.returns.tolist() == [[-1.0, 1.0]]


SHOWN = (
    "seats", "done", "returns", "num_moves", "episodes", "legal_mask", "observations",
    "final_observations",
)  # fmt: skip


def _assert_alike(batch: Batch, twin: Batch) -> None:
    for name in SHOWN:
        np.testing.assert_array_equal(getattr(twin, name), getattr(batch, name), err_msg=name)
    assert twin.seeds == batch.seeds
    assert twin.random_actions().tolist() == batch.random_actions().tolist()
    for index in range(batch.batch_size):
        assert twin.state(index) == batch.state(index)
        assert twin.record(index) == batch.record(index)


@pytest.mark.parametrize("autoreset", [False, True])
@pytest.mark.parametrize("backend", ["generic", "numba"])
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch))]
)
def test_copy_in_mid_game_has_the_same_state_and_a_future_of_its_own(duplicate, backend, autoreset):
    batch = make_batch(ID, batch_size=4, seed=2, autoreset=autoreset, backend=backend)
    for _ in range(6):
        batch.step(batch.random_actions())
    batch.restart([2])
    twin = duplicate(batch)
    _assert_alike(batch, twin)
    before = {name: np.array(getattr(batch, name)) for name in SHOWN}
    running = np.flatnonzero(twin.seats >= 0)
    twin.step(twin.random_actions()[:2], running[:2])
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(batch, name), array, err_msg=name)
    batch.step(batch.random_actions()[:2], running[:2])
    for _ in range(12):
        _assert_alike(batch, twin)
        for each in (batch, twin):
            each.step(each.random_actions())
    with pytest.raises(ValueError, match="read-only"):
        twin.seats[0] = 0


def test_copy_remembers_what_failed():
    batch = GameBatch(Fragile(), seeds=[_seed_of("initial"), _seed_of("none")])
    twin = copy.deepcopy(batch)
    assert twin.failed == batch.failed
    twin.restart([0])
    assert 0 in batch.failed


class Blurred(Counter):
    """Lasts three moves; shows in game 1 what it was made with, from `since` moves on."""

    def __init__(self, *, wrong, since):
        self._wrong, self._since = wrong, since

    def initial(self, rng):
        return (3, 0, bool(rng.integers(2)))

    def apply(self, state, action):
        return (state[0], state[1] + 1, state[2])

    def planes(self, state, seat):
        if state[2] and state[1] >= self._since:
            return self._wrong()
        return np.array([[[seat, *state[:2]]]], np.uint8)


def _blurred(*, autoreset: bool, wrong: object, since: int) -> GameBatch:
    game = Blurred(wrong=wrong, since=since)
    seeds = [
        next(seed for seed in range(99) if _start(game, seed)[2] is blurred)
        for blurred in (False, True, False)
    ]
    return GameBatch(game, seeds=seeds, autoreset=autoreset)


def _raise() -> None:
    raise RuntimeError("planes broke")


WRONG = [
    (_raise, "RuntimeError: planes broke"),
    (
        lambda: np.zeros((1, 1, 3)),
        r"ValueError: planes() must always be uint8 (1, 1, 3), got float",
    ),
    (lambda: np.zeros((2, 1, 3), np.uint8), "ValueError: planes() must always be uint8 (1, 1, 3)"),
    (lambda: [[[1]]], "ValueError: planes() must always be uint8 (1, 1, 3), got [[[1]]]"),
    (lambda: None, "ValueError: planes() must always be uint8 (1, 1, 3), got None"),
]


@pytest.mark.parametrize(("wrong", "message"), WRONG)
def test_game_that_cannot_be_looked_at_ends_alone(wrong, message):
    batch = _blurred(autoreset=False, wrong=wrong, since=2)
    for _ in range(2):
        batch.step([0, 0, 0])
    assert batch.observations[:, 0, 0].tolist() == [[0, 3, 2], [0, 0, 0], [0, 3, 2]]
    assert batch.failed[1].startswith(message)
    assert [*batch.failed] == [1]
    assert batch.done.tolist() == [False, True, False]
    assert batch.seats.tolist() == [0, -1, 0]
    batch.step([0, 0])
    assert batch.returns.tolist() == [[1.0, -1.0], [0.0, 0.0], [1.0, -1.0]]
    assert batch.observations[:, 0, 0].tolist() == [[0, 3, 3], [0, 0, 0], [0, 3, 3]]


@pytest.mark.parametrize("since", [2, 3])
def test_under_autoreset_it_is_reported_once_and_makes_way(since):
    batch = _blurred(autoreset=True, wrong=_raise, since=since)
    for _ in range(2):
        batch.step([0, 0, 0])
    assert batch.observations[1].any() == (since == 3)
    assert not batch.done.any()
    # What fails at its end is found in the step; what was found before is told by it.
    assert batch.seats.tolist() == ([0, -1, 0] if since == 2 else [0, 0, 0])
    batch.step(batch.random_actions())
    assert batch.done.all()
    assert batch.returns.tolist() == [[1.0, -1.0], [0.0, 0.0], [1.0, -1.0]]
    assert [*batch.failed] == [1]
    assert batch.final_observations[:, 0, 0].tolist() == [[0, 3, 3], [0, 0, 0], [0, 3, 3]]
    assert batch.episodes.tolist() == [1, 1, 1]
    batch.step(batch.random_actions())
    assert not batch.done.any()
    assert not batch.failed


def test_next_game_that_cannot_be_looked_at_either_is_reported_too():
    game = Blurred(wrong=_raise, since=0)
    seed = next(
        seed
        for seed in range(99)
        if all(_start(game, episode_seed(seed, number))[2] for number in (0, 1))
    )
    batch = GameBatch(game, seeds=[seed], autoreset=True)
    for episode in (0, 1):
        assert batch.seats.tolist() == [0]
        assert batch.observations.tolist() == [[[[0, 0, 0]]]]
        assert (batch.seats.tolist(), batch.episodes.tolist()) == ([-1], [episode])
        batch.step([])
        assert (batch.done.tolist(), [*batch.failed]) == ([True], [0])


class Faltering(Counter):
    """Whether a game can start depends on its seed."""

    max_moves = 2

    def initial(self, rng):
        if rng.integers(2):
            raise RuntimeError("initial broke")
        return (2, 0)


def _can_start(seed: int) -> bool:
    return bool(np.random.default_rng(seed).integers(2) == 0)


def _seed_that_starts(*episodes: bool) -> int:
    return next(
        seed
        for seed in range(999)
        if tuple(_can_start(episode_seed(seed, number)) for number in range(len(episodes)))
        == episodes
    )


def test_a_win_is_kept_when_the_next_start_fails_and_the_failure_is_told_by_the_next_step():
    seeds = [_seed_that_starts(True, False, False, True), _seed_that_starts(True, True, True)]
    batch = GameBatch(Faltering(), seeds=seeds, autoreset=True)
    shown = []
    for _ in range(4):
        batch.step(batch.random_actions())
        row = (batch.done[0], batch.returns[0, 0], batch.seats[0], 0 in batch.failed)
        shown.append((*row, batch.episodes[0]))
    assert shown == [
        (False, 0.0, 1, False, 0),
        (True, 1.0, -1, False, 1),  # the win; game 1 could not start
        (True, 0.0, -1, True, 2),  # that game; game 2 cannot start either
        (True, 0.0, 0, True, 3),  # that one; game 3 waits for its first move
    ]
    assert batch.done.tolist() == [True, True]
    assert batch.returns[1].tolist() == [1.0, -1.0]
    batch.step(batch.random_actions())
    assert (batch.done[0], batch.num_moves[0], dict(batch.failed)) == (False, 1, {})


def test_first_start_that_fails_under_autoreset_is_told_by_the_first_step():
    batch = GameBatch(Faltering(), seeds=[_seed_that_starts(False, True)], autoreset=True)
    assert (batch.done.tolist(), batch.seats.tolist()) == ([False], [-1])
    batch.step([])
    assert (batch.done.tolist(), batch.seats.tolist()) == ([True], [0])
    assert batch.failed[0].startswith("RuntimeError: initial broke")


def test_restart_of_a_slot_whose_start_failed_reports_nothing_more():
    batch = GameBatch(Faltering(), seeds=[_seed_that_starts(False, True)], autoreset=True)
    batch.restart([0])
    batch.step([0])
    assert (batch.done.tolist(), dict(batch.failed)) == ([False], {})
    assert batch.episodes.tolist() == [1]


def test_arguments_of_the_wrong_kind_are_refused_with_rule_and_value():
    # In a process of its own, where no type checker of the test run comes first.
    code = f"""
import numpy as np
import earl_envs
from earl_envs.kernels.tensor import TensorBatch

GOOD = {{"batch_size": 1, "seed": 0}}
CASES = [
    ({{"batch_size": 1.5}}, "batch_size must be an integer, got 1.5"),
    ({{"batch_size": "a"}}, "batch_size must be an integer, got 'a'"),
    ({{"batch_size": True}}, "batch_size must be an integer, got True"),
    ({{"seed": 1.5}}, "seed must be an integer, got 1.5"),
    ({{"seed": None}}, "seed must be an integer, got None"),
    ({{"seed": True}}, "seed must be an integer, got True"),
    ({{"autoreset": "yes"}}, "autoreset must be True or False, got 'yes'"),
    ({{"backend": ["numba"]}}, "backend must be auto, numba or generic, got ['numba']"),
]

def refusal(function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except ValueError as error:
        return str(error)
    raise AssertionError((args, kwargs))

for kwargs, message in CASES:
    for backend in ("numba", "generic"):
        given = GOOD | {{"backend": backend}} | kwargs
        assert refusal(earl_envs.make_batch, {ID!r}, **given) == message
    if "backend" not in kwargs:
        assert refusal(TensorBatch, {ID!r}, **GOOD | kwargs, xp=np) == message

for backend in ("numba", "generic"):
    one = earl_envs.make_batch({ID!r}, batch_size=2, seed=3, backend=backend)
    other = earl_envs.make_batch({ID!r}, batch_size=np.int64(2), seed=np.int8(3), backend=backend)
    assert one.seeds == other.seeds
    for index in (0.0, "a", None, True):
        for query in (one.state, one.legal, one.moves, one.record, lambda i: one.text(i, 0)):
            assert refusal(query, index) == f"index must be an integer, got {{index!r}}"
        assert refusal(one.text, 0, index) == f"seat must be an integer, got {{index!r}}"
    assert one.record(np.int64(1)) == one.record(1)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("backend", ["generic", "numba"])
def test_drawn_actions_hold_until_the_next_draw(backend):
    batch = make_batch("earl/ConnectFour-v0", batch_size=3, seed=0, backend=backend)
    drawn = batch.random_actions()
    kept = drawn.copy()
    with pytest.raises(ValueError, match="read-only"):
        drawn[0] = 3
    batch.step(drawn)
    batch.step([(action + 1) % 7 for action in kept.tolist()])
    batch.step([6], [0])
    assert drawn.tolist() == kept.tolist()
    batch.step(drawn)
    assert [batch.moves(index)[-1] for index in range(3)] == kept.tolist()


@pytest.mark.parametrize("backend", ["generic", "numba"])
def test_a_step_checks_the_range_of_all_its_games_at_once(backend, monkeypatch):
    batch = make_batch(ID, batch_size=50, seed=0, backend=backend)
    check, checked = Batch._checked_index, []

    def count(self, index):
        checked.append(index)
        return check(self, index)

    monkeypatch.setattr(Batch, "_checked_index", count)
    batch.step(batch.random_actions())
    batch.step(batch.random_actions()[::2], range(0, 50, 2))
    assert len(checked) <= 4
    assert batch.num_moves.sum() == 75


def test_caller_ends_a_game_whose_code_failed_elsewhere():
    batch = make_batch(ID, batch_size=2, seed=0, backend="generic")
    assert isinstance(batch, GameBatch)
    batch.step([0, 0])
    batch.fail(0, "no name")
    assert batch.done.tolist() == [True, False]
    assert dict(batch.failed) == {0: "no name"}
    assert (batch.seats[0], batch.legal(0), batch.returns[0].tolist()) == (-1, [], [0, 0])
    with pytest.raises(ValueError, match="game 0 is over and cannot fail, got 'again'"):
        batch.fail(0, "again")
    batch.step([1])
    assert batch.moves(1) == (0, 1)
