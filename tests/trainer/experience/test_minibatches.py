"""Mini-batches hold every row once a pass, on whatever worker it is."""

import pytest
import torch
from earl_trainer.experience.minibatches import places_among, shuffle_minibatches
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(derandomize=True, max_examples=60, deadline=None)
@given(num_rows=st.integers(1, 40), num_minibatches=st.integers(1, 50), seed=st.integers(0, 9))
def test_every_pass_has_every_row_once_in_parts_of_about_one_size(num_rows, num_minibatches, seed):
    passes = shuffle_minibatches(num_rows, num_minibatches=num_minibatches, num_epochs=2, seed=seed)
    assert len(passes) == 2
    for minibatches in passes:
        assert sorted(torch.cat(minibatches).tolist()) == list(range(num_rows))
        sizes = [len(minibatch) for minibatch in minibatches]
        assert len(sizes) == min(num_minibatches, num_rows)
        assert max(sizes) - min(sizes) <= 1


def test_seed_and_pass_decide_the_shuffle():
    def shuffled(seed):
        return shuffle_minibatches(20, num_minibatches=1, num_epochs=2, seed=seed)

    (first,), (second,) = shuffled(0)
    assert first.equal(shuffled(0)[0][0])
    assert not first.equal(second)
    assert not first.equal(shuffled(1)[0][0])


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    owners=st.lists(st.integers(0, 2), min_size=1, max_size=20),
    num_minibatches=st.integers(1, 5),
)
def test_the_workers_parts_of_a_minibatch_are_the_minibatch_in_its_order(owners, num_minibatches):
    own = [[row for row, owner in enumerate(owners) if owner == rank] for rank in range(3)]
    (minibatches,) = shuffle_minibatches(
        len(owners), num_minibatches=num_minibatches, num_epochs=1, seed=0
    )
    for rows in minibatches:
        for rank in range(3):
            places = places_among(own[rank], rows)
            found = [own[rank][place] for place in places.tolist()]
            assert found == [row for row in rows.tolist() if owners[row] == rank]


@pytest.mark.parametrize("own", [(), (5, 6)])
def test_a_worker_without_a_row_of_it_adds_none(own):
    assert places_among(own, torch.tensor([3, 0])).tolist() == []


def test_no_rows_are_one_empty_minibatch_of_each_pass():
    passes = shuffle_minibatches(0, num_minibatches=3, num_epochs=2, seed=0)
    assert [[len(rows) for rows in minibatches] for minibatches in passes] == [[0], [0]]
