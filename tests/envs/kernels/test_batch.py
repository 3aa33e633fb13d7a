"""Compiled batches against the games' own rules, move for move."""

import pickle
import subprocess
import sys

import numba
import numpy as np
import pytest
from earl_envs import GameBatch, make_batch
from earl_envs.batch_base import Batch
from earl_envs.games.connect_four import ConnectFour
from earl_envs.kernels.batch import PARALLEL_GAMES, KernelBatch
from hypothesis import given, settings
from hypothesis import strategies as st

IDS = ["earl/TicTacToe-v0", "earl/ConnectFour-v0", "earl/Othello-v0"]
NUM_STEPS = {"earl/TicTacToe-v0": 24, "earl/ConnectFour-v0": 60, "earl/Othello-v0": 66}


def _pair(game_id: str, **kwargs: object) -> tuple[Batch, Batch]:
    fast, slow = (make_batch(game_id, backend=name, **kwargs) for name in ("numba", "generic"))
    assert isinstance(fast, KernelBatch)
    assert isinstance(slow, GameBatch)
    return fast, slow


def _assert_same(fast: Batch, slow: Batch) -> None:
    for name in (
        "seats",
        "done",
        "returns",
        "num_moves",
        "episodes",
        "legal_mask",
        "observations",
        "final_observations",
    ):
        left, right = getattr(fast, name), getattr(slow, name)
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)
    assert fast.seeds == slow.seeds
    assert fast.random_actions().tolist() == slow.random_actions().tolist()
    for index in range(fast.batch_size):
        assert fast.state(index) == slow.state(index)
        assert fast.legal(index) == slow.legal(index)
        assert fast.record(index) == slow.record(index)
        assert [fast.text(index, seat) for seat in (0, 1)] == [
            slow.text(index, seat) for seat in (0, 1)
        ]


def _complaint(batch: Batch, actions: object, indices: object) -> str:
    with pytest.raises(ValueError, match=r".") as caught:
        batch.step(actions, indices)
    return str(caught.value)


def _advance(fast: Batch, slow: Batch, rng: np.random.Generator) -> None:
    """Do one thing to both: step everyone, step some, restart some, or ask for the impossible."""
    running = np.flatnonzero(slow.seats >= 0)
    chosen = rng.permutation(running)[: rng.integers(0, len(running) + 1)]
    deed = rng.integers(10)
    if deed < 4:
        actions = slow.random_actions()
        fast.step(fast.random_actions())
        slow.step(actions)
    elif deed < 8:
        actions = [int(rng.choice(slow.legal(index))) for index in chosen.tolist()]
        for batch in (fast, slow):
            batch.step(actions, chosen)
    elif deed < 9:
        for batch in (fast, slow):
            batch.restart(chosen)
    else:
        indices = rng.integers(-1, slow.batch_size + 1, size=2)
        actions = rng.integers(-1, slow.game.num_actions + 1, size=2)
        sound = len(set(indices.tolist())) == 2 and all(
            0 <= index < slow.batch_size and action in slow.legal(index)
            for index, action in zip(indices.tolist(), actions.tolist(), strict=True)
        )
        if not sound:
            assert _complaint(fast, actions, indices) == _complaint(slow, actions, indices)


@pytest.mark.parametrize("game_id", IDS)
@pytest.mark.parametrize("autoreset", [False, True])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**40), batch_size=st.integers(1, 4))
def test_agrees_with_the_rules_whatever_is_done_to_it(game_id, autoreset, seed, batch_size):
    fast, slow = _pair(game_id, batch_size=batch_size, seed=seed, autoreset=autoreset)
    rng = np.random.default_rng(seed)
    for _ in range(NUM_STEPS[game_id]):
        _advance(fast, slow, rng)
        _assert_same(fast, slow)


@pytest.mark.parametrize("game_id", IDS)
def test_whole_games_end_alike_in_every_slot(game_id):
    fast, slow = _pair(game_id, batch_size=8, seed=3)
    while not slow.done.all():
        slow.step(slow.random_actions())
        fast.step(fast.random_actions())
    _assert_same(fast, slow)
    assert fast.done.all()
    assert {-1.0, 1.0} <= set(fast.returns.ravel().tolist())


@pytest.mark.slow
@pytest.mark.parametrize("game_id", IDS)
def test_threads_do_what_one_does(game_id):
    size = PARALLEL_GAMES + 7
    kwargs = {"batch_size": size, "seed": 5, "autoreset": True}
    many, some = make_batch(game_id, **kwargs), np.arange(size - 3)
    for _ in range(12):
        many.step(many.random_actions())
        many.step(many.random_actions()[some], some)
    num_threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one = make_batch(game_id, **kwargs)
        for _ in range(12):
            one.step(one.random_actions())
            one.step(one.random_actions()[some], some)
    finally:
        numba.set_num_threads(num_threads)
    for name in ("observations", "legal_mask", "returns", "num_moves", "episodes", "done"):
        np.testing.assert_array_equal(getattr(many, name), getattr(one, name), err_msg=name)
    assert one.num_moves.sum() > 0


@pytest.mark.parametrize(
    "actions",
    [
        [4, 1],
        np.array([4, 1], np.int8),
        np.array([4, 1], np.uint64),
        np.array([[4, 1], [0, 0]])[0],
        np.array([4, 0, 1])[::2],
        np.frombuffer(np.array([4, 1]).tobytes(), np.int64),
    ],
)
def test_takes_moves_in_any_form_of_integers(actions):
    batch = make_batch("earl/ConnectFour-v0", batch_size=2, seed=0, backend="numba")
    batch.step(actions)
    assert [batch.moves(0), batch.moves(1)] == [(4,), (1,)]


@pytest.mark.parametrize(
    "actions",
    [[4.0, 1.0], [True, False], [4], [4, 1, 1], [[4, 1]], [2**70, 1], np.array([2**63, 1], "u8")],
)
def test_refuses_what_the_general_batch_refuses(actions):
    fast, slow = _pair("earl/ConnectFour-v0", batch_size=2, seed=0)
    assert _complaint(fast, actions, None) == _complaint(slow, actions, None)
    assert fast.num_moves.tolist() == [0, 0]


def test_actions_that_a_caller_changed_are_checked_too():
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, backend="numba")
    actions = batch.random_actions().copy()
    actions[1] = 9
    with pytest.raises(ValueError, match="action 9 is illegal in game 1"):
        batch.step(actions)
    assert batch.num_moves.tolist() == [0, 0, 0]


def test_drawn_actions_are_checked_when_something_else_has_happened_since():
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, backend="numba")
    drawn = batch.random_actions()
    batch.step(drawn)
    with pytest.raises(ValueError, match=f"action {drawn[0]} is illegal in game 0"):
        batch.step(drawn)
    drawn = batch.random_actions()
    batch.step([int(drawn[2])], [2])
    with pytest.raises(ValueError, match=f"action {drawn[2]} is illegal in game 2"):
        batch.step(drawn)
    batch.restart([0, 1, 2])
    drawn = batch.random_actions()
    batch.step([int(drawn[0]), 8 - int(drawn[1])], [0, 1])
    batch.restart([1])
    with pytest.raises(ValueError, match=f"action {drawn[0]} is illegal in game 0"):
        batch.step(drawn)


def test_actions_may_be_a_part_of_the_drawn_ones():
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, backend="numba")
    actions = batch.random_actions()
    batch.step(actions[1:], [0, 2])
    kept = actions.tolist()
    assert [batch.moves(index) for index in range(3)] == [(kept[1],), (), (kept[2],)]
    with pytest.raises(ValueError, match=f"action {kept[1]} is illegal in game 0"):
        batch.step(actions[1:], [0, 1])


def test_drawn_actions_stay_as_they_are_until_the_next_are_asked_for():
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, autoreset=True, backend="numba")
    for _ in range(12):
        actions = batch.random_actions()
        kept = actions.copy()
        before = [batch.moves(index) for index in range(3)]
        batch.step(actions)
        np.testing.assert_array_equal(actions, kept)
        for index in np.flatnonzero(~batch.done).tolist():
            assert batch.moves(index) == (*before[index], kept[index])


@pytest.mark.parametrize("game_id", IDS)
def test_moves_drawn_ahead_of_given_ones_are_those_that_would_be_drawn(game_id):
    fast, slow = _pair(game_id, batch_size=6, seed=4, autoreset=True)
    for turn in range(70):
        fast.step(fast.random_actions().copy())
        slow.step(slow.random_actions())
        if turn % 7 == 3:  # not asked for in between
            others = [legal[-1] for legal in map(slow.legal, range(6))]
            for batch in (fast, slow):
                batch.step(others)
        np.testing.assert_array_equal(fast.random_actions(), slow.random_actions())
    _assert_same(fast, slow)


def test_refused_moves_leave_the_drawn_ones_as_they_were():
    batch = make_batch("earl/TicTacToe-v0", batch_size=3, seed=0, autoreset=True, backend="numba")
    batch.step(batch.random_actions())
    drawn = batch.random_actions().tolist()
    with pytest.raises(ValueError, match="action 9 is illegal in game 0"):
        batch.step([9, 9, 9])
    assert batch.random_actions().tolist() == drawn


@pytest.mark.parametrize("deed", ["step", "step one", "restart"])
def test_actions_drawn_ahead_are_dropped_when_something_else_happens(deed):
    fast, slow = _pair("earl/ConnectFour-v0", batch_size=6, seed=2, autoreset=True)
    for turn in range(8):
        for batch in (fast, slow):
            batch.step(batch.random_actions())
            if deed == "step":
                batch.step([turn % 7] * 6)
            elif deed == "step one":
                batch.step([turn % 7], [3])
            else:
                batch.restart([turn % 6])
        _assert_same(fast, slow)


def test_a_copy_in_mid_game_draws_as_the_original_does():
    batch = make_batch("earl/TicTacToe-v0", batch_size=5, seed=0, autoreset=True, backend="numba")
    batch.step(batch.random_actions())
    batch.step(batch.random_actions())
    copied = pickle.loads(pickle.dumps(batch))
    for _ in range(10):
        np.testing.assert_array_equal(copied.random_actions(), batch.random_actions())
        for each in (copied, batch):
            each.step(each.random_actions())
    assert [copied.moves(index) for index in range(5)] == [batch.moves(index) for index in range(5)]


def test_buffers_are_the_same_memory_before_and_after_a_step():
    batch = make_batch("earl/ConnectFour-v0", batch_size=2, seed=0, backend="numba")
    names = ("observations", "legal_mask", "returns", "done", "seats", "num_moves", "episodes")
    before = {name: getattr(batch, name) for name in names}
    batch.step([3, 3])
    for name, array in before.items():
        assert np.shares_memory(array, getattr(batch, name))
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    assert before["observations"][:, 1, 5, 3].tolist() == [1, 1]
    assert before["seats"].tolist() == [1, 1]


def test_random_play_chooses_every_move_equally_often():
    batch = make_batch("earl/ConnectFour-v0", batch_size=3_500, seed=1, autoreset=True)
    counts = np.bincount(batch.random_actions(), minlength=7)
    # Five standard deviations of a binomial count of 3,500 draws at 1/7.
    assert np.abs(counts - 500).max() < 5 * np.sqrt(3_500 / 7 * 6 / 7)


def test_other_sizes_of_the_board_have_no_kernel():
    with pytest.raises(ValueError, match="ConnectFour has no compiled rules of this size"):
        KernelBatch(ConnectFour(rows=5), seeds=[0])


@pytest.mark.slow
def test_a_second_process_finds_the_compiled_code(tmp_path):
    code = """
import earl_envs
batch = earl_envs.make_batch("earl/TicTacToe-v0", batch_size=2, seed=0, backend="numba")
batch.step(batch.random_actions())
"""
    env = {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_DEBUG_CACHE": "1", "PATH": ""}
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env
        ).stdout
        for _ in range(2)
    ]
    deeds = ("data saved to", "data loaded from")
    assert [[run.count(deed) for deed in deeds] for run in runs] == [[2, 0], [0, 2]]
