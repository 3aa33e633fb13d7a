"""The sum tree against plain sums, and its draws against the weights."""

import numpy as np
import pytest
from earl_trainer.experience.sum_tree import SumTree, stratified_masses
from hypothesis import given
from hypothesis import strategies as st

WEIGHTS = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-9, 1e9, allow_subnormal=False)), min_size=1, max_size=40
)


def tree_of(weights):
    tree = SumTree(len(weights))
    tree.set(np.arange(len(weights)), np.array(weights))
    return tree


@given(WEIGHTS, st.data())
def test_it_equals_an_array_that_is_summed_anew(weights, data):
    tree, plain = tree_of(weights), np.array(weights)
    for _ in range(3):
        places = data.draw(st.lists(st.integers(0, len(plain) - 1), min_size=1, unique=True))
        new = data.draw(st.lists(st.floats(0.0, 1e6), min_size=len(places), max_size=len(places)))
        tree.set(np.array(places), np.array(new))
        plain[places] = new
        assert tree.leaves.tolist() == plain.tolist()
        assert tree.total == pytest.approx(plain.sum(), rel=1e-12)


@given(WEIGHTS.filter(any), st.lists(st.floats(0.0, 1.0), min_size=1, max_size=20))
def test_a_mass_leads_to_the_leaf_that_covers_it_and_never_to_a_zero(weights, shares):
    tree, plain = tree_of(weights), np.array(weights)
    masses = np.array(shares) * tree.total
    found = tree.find(masses)
    assert (plain[found] > 0.0).all()
    edges = np.concatenate([[0.0], np.cumsum(plain)])
    slack = 1e-9 * tree.total
    assert (edges[found] <= masses + slack).all()
    assert (masses <= edges[found + 1] + slack).all()


def test_the_last_leaf_of_a_capacity_that_is_no_power_of_two_is_drawn():
    tree = tree_of([1.0, 0.0, 2.0, 0.0, 3.0])
    assert tree.find(np.array([0.0, 0.99, 1.0, 2.99, 3.0, 5.99, 6.0])).tolist() == [
        0, 0, 2, 2, 4, 4, 4,
    ]  # fmt: skip


def test_a_million_updates_leave_the_root_the_sum_of_its_leaves():
    rng, tree = np.random.default_rng(0), SumTree(1000)
    for _ in range(500):
        # Sums that add differences keep a trace of every large weight that was there.
        tree.set(rng.integers(1000, size=1000), 10.0 ** rng.uniform(-6, 12, size=1000))
        tree.set(np.arange(1000), rng.random(1000))
    assert abs(tree.total - tree.leaves.sum()) < 1e-9


def test_draws_are_as_frequent_as_weights_say():
    weights = np.array([1.0, 0.0, 2.0, 4.0, 0.5, 0.0, 2.5])
    tree, rng = tree_of(weights), np.random.default_rng(1)
    num_draws = 20_000
    found = np.concatenate([
        tree.find(stratified_masses(tree.total, 4, rng)) for _ in range(num_draws // 4)
    ])
    counts = np.bincount(found, minlength=len(weights))
    expected = num_draws * weights / weights.sum()
    assert counts[weights == 0].tolist() == [0, 0]
    drawn = expected > 0
    chi_square = ((counts - expected)[drawn] ** 2 / expected[drawn]).sum()
    assert chi_square < 18.5  # 99.9 % of four degrees of freedom; strata only lower it


@given(st.integers(1, 30), st.floats(0.1, 1e6), st.integers(0, 99))
def test_every_stratum_gives_one_mass(num_draws, total, seed):
    masses = stratified_masses(total, num_draws, np.random.default_rng(seed))
    strata = np.floor(masses / total * num_draws * (1 + 1e-12)).astype(int)
    assert strata.tolist() == list(range(num_draws))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="capacity must be >= 1, got 0"):
        SumTree(0)
    tree = SumTree(3)
    with pytest.raises(ValueError, match=r"must be in 0\.\.2, got 1\.\.3"):
        tree.set(np.array([1, 3]), np.ones(2))
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite and >= 0"):
            tree.set(np.array([0]), np.array([wrong]))
    with pytest.raises(ValueError, match="of which all are 0"):
        tree.find(np.zeros(1))
