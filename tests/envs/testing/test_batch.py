"""Batches that differ from the rules are caught, whichever backend."""

import re

import numpy as np
import pytest
from earl_envs.batch import make_batch
from earl_envs.batch_base import Batch
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.testing import batch as batch_checks

BATCH = ["batch_agreement", "batch_subsets", "batch_restart"]


@Batch.register
class Altered:
    """A batch in which something goes wrong."""

    def __init__(self, batch):
        self._batch = batch

    def __getattr__(self, name):
        return getattr(self._batch, name)


@pytest.fixture
def findings_with(monkeypatch, stones, findings_of):
    """Ask a check while `make_batch` gives altered batches."""

    def ask(check, altered, game_class=stones):
        def make(*args, **options):
            return altered(make_batch(*args, **options))

        monkeypatch.setattr(batch_checks, "make_batch", make)
        return findings_of(check, game_class)

    return ask


@pytest.mark.parametrize("check", BATCH)
def test_honest_batches_pass(check, stones, findings_of):
    assert findings_of(check, stones) == []
    assert findings_of(check, TicTacToe) == []


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("legal_mask", np.logical_not),
        ("returns", lambda returns: -returns),
        ("seats", lambda seats: np.where(seats == 1, 0, seats)),
        ("observations", lambda observations: observations + 1),
        ("done", np.zeros_like),
    ],
)
def test_arrays_that_differ_from_the_rules_are_caught(name, change, findings_with):
    lie = property(lambda self: change(getattr(self._batch, name)))
    (found,) = findings_with("batch_agreement", type("Liar", (Altered,), {name: lie}))
    assert re.search(rf"backend generic: {name.removesuffix('s')}s? must be ", found)
    assert "at seed " in found


def test_a_step_that_touches_neighbours_is_caught(findings_with):
    class Touches(Altered):
        def step(self, actions, indices=None):
            self._batch.step(actions, indices)
            others = [i for i in np.flatnonzero(~self.done) if i not in set(np.asarray(indices))]
            if others:
                self._batch.step([0], others[:1])

    (found, *_) = findings_with("batch_subsets", Touches)
    assert "changed num_moves of others" in found or "of others" in found


def test_a_batch_that_takes_illegal_actions_is_caught(findings_with):
    class Clips(Altered):
        def step(self, actions, indices=None):
            legal = [self.legal(int(index)) for index in np.asarray(indices)]
            if all(legal):
                pairs = zip(actions, legal, strict=True)
                self._batch.step([a if a in moves else moves[0] for a, moves in pairs], indices)

    (found, *_) = findings_with("batch_subsets", Clips)
    assert found.startswith("batch.step() takes the illegal action -1")


def test_a_finished_game_that_is_stepped_is_caught(findings_with):
    class GoesOn(Altered):
        def step(self, actions, indices=None):
            if indices is None or not self.done[np.asarray(indices)].any():
                self._batch.step(actions, indices)

    (found, *_) = findings_with("batch_subsets", GoesOn)
    assert "steps a finished game" in found


def test_a_lost_final_observation_is_caught(findings_with):
    class Loses(Altered):
        @property
        def final_observations(self):
            return self.observations

    (found, *_) = findings_with("batch_restart", Loses)
    assert "the final observation with autoreset is " in found


def test_a_restart_from_elsewhere_is_caught(findings_with):
    class Elsewhere(Altered):
        def restart(self, indices):
            self._batch.restart(indices)
            self._batch.restart(indices)

    assert "with autoreset is " in findings_with("batch_restart", Elsewhere)[0]
