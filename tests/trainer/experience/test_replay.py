"""Bounds, draws, priorities and files of the replay."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from earl_dispatch import Columns
from earl_trainer.experience.replay import (
    Replay,
    ReplayRules,
    advantage_sizes,
    oldest_versions,
    read_rows,
    row_bytes,
)
from hypothesis import given, settings
from hypothesis import strategies as st


def rows_of(numbers, *, version=0, advantages=None, length=2):
    """Rows that are told apart by their tokens, `length` of each number."""
    numbers = torch.tensor(numbers, dtype=torch.int32)
    sizes = torch.ones(len(numbers)) if advantages is None else torch.tensor(advantages)
    return Columns(
        lengths=torch.full((len(numbers),), length),
        per_token={
            "token_ids": numbers.repeat_interleave(length),
            "mask": torch.ones(len(numbers) * length, dtype=torch.bool),
            "versions": torch.full((len(numbers) * length,), version, dtype=torch.int32),
            "advantages": sizes.repeat_interleave(length),
        },
    )


def numbers_of(columns):
    return columns.per_token["token_ids"][columns.offsets()].tolist()


def held(replay):
    """The numbers of all rows that may be drawn."""
    drawn = replay.draw(replay.num_rows, np.random.default_rng(0))
    return sorted(set(numbers_of(drawn.columns)))


def rules(**fields):
    return ReplayRules(**{"max_rows": 5, "max_bytes": 10**9, **fields})


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 7), st.integers(1, 12))
def test_the_newest_rows_within_both_bounds_are_held(sizes, max_rows, max_held):
    row = int(row_bytes(rows_of([0]))[0])
    replay = Replay(rules(max_rows=max_rows, max_bytes=max_held * row))
    numbers = []
    for size in sizes:
        added = list(range(len(numbers), len(numbers) + size))
        replay.add(rows_of(added))
        numbers += added
    expected = numbers[-min(max_rows, max_held) :]
    assert replay.num_rows == replay.num_drawable == len(expected)
    assert replay.num_bytes == len(expected) * row
    if expected:
        # As many draws as rows, of equal weights and one from each stratum: every row once.
        assert held(replay) == expected


def test_a_row_that_is_too_large_by_itself_is_not_held():
    replay = Replay(rules(max_bytes=int(row_bytes(rows_of([0]))[0])))
    replay.add(rows_of([1]))
    replay.add(rows_of([2], length=9))
    assert (replay.num_rows, replay.num_bytes) == (0, 0)
    assert replay.draw(1, np.random.default_rng(0)) is None


def test_drawn_rows_are_the_rows_that_their_numbers_say():
    replay = Replay(rules(max_rows=7))
    for first in range(0, 15, 3):
        replay.add(rows_of(range(first, first + 3), length=1 + first % 4))
    drawn = replay.draw(6, np.random.default_rng(3))
    assert numbers_of(drawn.columns) == drawn.serials.tolist()
    assert drawn.columns.lengths.tolist() == [1 + n // 3 * 3 % 4 for n in drawn.serials]
    assert set(drawn.serials) <= set(range(8, 15))


def test_rows_are_drawn_as_often_as_their_priorities_say_and_weigh_by_formula():
    alpha, beta = 0.7, 0.5
    advantages = [0.5, -2.0, 0.0, 1.0]
    replay = Replay(rules(priority_exponent=alpha, importance_exponent=beta))
    replay.add(rows_of(range(4), advantages=advantages))
    # Until it was drawn, every row has the highest priority.
    assert replay.priorities().tolist() == [1.0] * 4
    first = replay.draw(4, np.random.default_rng(0))
    assert first.weights.tolist() == [1.0] * 4
    replay.settle(first)
    priorities = (np.abs(advantages) + 1e-3) ** alpha
    np.testing.assert_allclose(replay.priorities(), priorities)

    rng = np.random.default_rng(5)
    shares = priorities / priorities.sum()
    unscaled = (4 * shares) ** -beta
    counts = np.zeros(4)
    for _ in range(600):
        drawn = replay.draw(2, rng)
        np.testing.assert_allclose(drawn.weights, (unscaled / unscaled.max())[drawn.serials])
        counts += np.bincount(drawn.serials, minlength=4)
    np.testing.assert_allclose(counts / 1200, shares, atol=0.04)

    replay.add(rows_of([4]))
    assert replay.priorities()[-1] == priorities.max()


def test_rows_of_equal_priority_weigh_1():
    replay = Replay(rules(priority_exponent=0.6, importance_exponent=0.4))
    replay.add(rows_of(range(4), advantages=[-0.3, 0.3, 0.3, -0.3]))
    for _ in range(2):
        drawn = replay.draw(4, np.random.default_rng(1))
        assert drawn.weights.tolist() == [1.0] * 4
        replay.settle(drawn)
    # 0.301^0.6, whatever the sign of the advantage.
    np.testing.assert_allclose(replay.priorities(), [0.4866] * 4, atol=1e-4)


def test_beta_grows_to_1_where_weights_make_up_for_all_of_the_unequal_draws():
    replay = Replay(rules(priority_exponent=1.0, importance_exponent=0.4))
    replay.add(rows_of(range(2), advantages=[1.0, 3.0]))
    replay.settle(replay.draw(2, np.random.default_rng(0)))
    ratio = 1.001 / 3.001
    for progress, beta in ((0.0, 0.4), (0.5, 0.7), (1.0, 1.0)):
        assert replay.importance_exponent(progress) == pytest.approx(beta)
        drawn = replay.draw(2, np.random.default_rng(2), progress=progress)
        np.testing.assert_allclose(drawn.weights, np.array([1.0, ratio**beta])[drawn.serials])


def test_a_draw_changes_nothing():
    replay = Replay(rules(priority_exponent=1.0))
    replay.add(rows_of(range(4), advantages=[1.0, 2.0, 3.0, 4.0]))
    before = replay.priorities()
    one = replay.draw(3, np.random.default_rng(0))
    two = replay.draw(3, np.random.default_rng(0))
    assert one.serials.tolist() == two.serials.tolist()
    assert replay.priorities().tolist() == before.tolist()


def test_rows_of_weights_too_old_are_not_drawn():
    replay = Replay(rules(max_staleness=2))
    for version in range(4):
        replay.add(rows_of([version], version=version))
    replay.expire(4)
    assert (replay.num_rows, replay.num_drawable) == (4, 2)
    assert held(replay) == [2, 3]
    replay.expire(9)
    assert replay.draw(1, np.random.default_rng(0)) is None
    replay.add(rows_of([4], version=9))
    assert held(replay) == [4]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 12), st.integers(1, 6))
def test_a_replay_that_was_saved_goes_on_as_if_it_never_was(tmp_path_factory, num_adds, max_rows):
    rule = rules(max_rows=max_rows, priority_exponent=0.6, importance_exponent=0.4)
    path = tmp_path_factory.mktemp("replay") / "replay.pt"
    replay, rng = Replay(rule), np.random.default_rng(num_adds)

    def go_on(replay, number, seed):
        drawn = replay.draw(2, np.random.default_rng(seed))
        if drawn is not None:
            replay.settle(drawn)
        replay.add(rows_of([number, number + 1], advantages=[0.1 * number, 1.0]))
        return None if drawn is None else (drawn.serials.tolist(), drawn.weights.tolist())

    for number in range(num_adds):
        go_on(replay, 2 * number, number)
    replay.save(path, origin={})
    again = Replay.load(path, rule)
    assert (again.num_rows, again.num_bytes) == (replay.num_rows, replay.num_bytes)
    for number in range(num_adds, num_adds + 4):
        seed = int(rng.integers(1000))
        assert go_on(again, 2 * number, seed) == go_on(replay, 2 * number, seed)
    assert again.priorities().tolist() == replay.priorities().tolist()


def test_a_save_that_is_broken_off_leaves_the_file_before(tmp_path, monkeypatch):
    path, replay = tmp_path / "replay.pt", Replay(rules())
    replay.add(rows_of([1, 2]))
    replay.save(path, origin={})
    replay.add(rows_of([3]))

    def broken(values, file):
        file.write(b"half")
        raise OSError("no space left")

    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="no space"):
        replay.save(path, origin={})
    assert held(Replay.load(path, rules())) == [1, 2]


def test_files_without_rows_are_refused(tmp_path):
    path = tmp_path / "replay.pt"
    Replay(rules()).save(path, origin={})
    with pytest.raises(ValueError, match="holds no rows"):
        read_rows(path)
    path.write_bytes(b"no such thing")
    with pytest.raises(ValueError, match=r"replay\.pt' holds no rows of a replay"):
        read_rows(path)
    torch.save({"other": 1}, path)
    with pytest.raises(ValueError, match="holds no rows of a replay"):
        Replay.load(path, rules())


def test_the_version_of_a_row_is_that_of_its_oldest_token():
    rows = rows_of([0, 1, 2])
    versions = torch.tensor([-1, 7, 5, 9, -1, -1], dtype=torch.int32)
    rows = replace(rows, per_token={**rows.per_token, "versions": versions})
    assert oldest_versions(rows).tolist() == [7, 5, -1]


def test_advantages_per_token_count_by_their_mean_size_where_they_are_trained():
    rows = rows_of([0, 1, 2])
    per_token = {
        **rows.per_token,
        "mask": torch.tensor([True, True, True, False, False, False]),
        "advantages": torch.tensor([1.0, -3.0, 0.5, 99.0, 99.0, 99.0]),
    }
    rows = Columns(lengths=rows.lengths, per_token=per_token)
    assert advantage_sizes(rows).tolist() == [2.0, 0.5, 0.0]
