"""Vector environments that differ from single ones are caught, in every autoreset mode."""

import gymnasium
import numpy as np
import pytest
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.testing import CHECKS, vector


class Altered:
    """A vector environment in which something goes wrong."""

    def __init__(self, envs):
        self._envs = envs

    def __getattr__(self, name):
        return getattr(self._envs, name)


@pytest.fixture
def findings_with(monkeypatch, stones, findings_of):
    real = gymnasium.make_vec

    def ask(altered, check="gymnasium_vector"):
        monkeypatch.setattr(
            vector.gymnasium, "make_vec", lambda *args, **options: altered(real(*args, **options))
        )
        return findings_of(check, stones)

    return ask


def test_honest_games_pass(stones, findings_of):
    assert findings_of("gymnasium_vector", stones) == []
    assert findings_of("gymnasium_vector", TicTacToe) == []
    assert findings_of("gymnasium_text_vector", stones) == []
    assert findings_of("gymnasium_text_vector", TicTacToe) == []


def test_other_games_than_the_seeds_are_caught(findings_with):
    class Ignores(Altered):
        def reset(self, *, seed=None, options=None):
            return self._envs.reset(seed=None if seed is None else seed + 1, options=options)

    (found, *_) = findings_with(Ignores)
    assert found.startswith("vector environment in mode NextStep: ")


def test_wrong_rewards_are_caught(findings_with):
    class Pays(Altered):
        def step(self, actions):
            boards, rewards, *rest = self._envs.step(actions)
            return boards, rewards + 1, *rest

    (found, *_) = findings_with(Pays)
    assert found.startswith("vector environment in mode NextStep: rewards of step 0 must be [0.0, ")


def test_a_lost_final_observation_is_caught(findings_with):
    class Loses(Altered):
        def step(self, actions):
            *others, infos = self._envs.step(actions)
            if "final_obs" in infos:
                infos["final_obs"] = others[0]
            return *others, infos

    (found, *_) = findings_with(Loses)
    assert "in mode SameStep: final_obs of environment" in found


def test_a_finished_environment_that_goes_on_is_caught(findings_with):
    class GoesOn(Altered):
        def step(self, actions):
            try:
                self.last = self._envs.step(actions)
            except ValueError:
                return self.last
            return self.last

    assert findings_with(GoesOn)[0] == (
        "vector environment in mode Disabled: finished environments must refuse to step"
    )


@pytest.mark.parametrize(("option", "shown"), [("seat", "seat=1"), ("opponent", "opponent=None")])
def test_a_fault_of_another_seating_is_caught(monkeypatch, stones, findings_of, option, shown):
    real = gymnasium.make_vec

    def ignore(*args, **options):
        options.pop(option, None)
        return real(*args, **options)

    monkeypatch.setattr(vector.gymnasium, "make_vec", ignore)
    (found, *_) = findings_of("gymnasium_vector", stones)
    assert found.startswith(f"vector environment in mode NextStep, {shown}: ")


def test_a_wrong_seat_is_caught(findings_with):
    class Elsewhere(Altered):
        def step(self, actions):
            *others, infos = self._envs.step(actions)
            return *others, {**infos, "seat": infos["seat"] + 1}

    (found, *_) = findings_with(Elsewhere)
    assert "seat of environment" in found


def test_wrong_masks_are_caught(findings_with):
    class AllLegal(Altered):
        def step(self, actions):
            *others, infos = self._envs.step(actions)
            return *others, {**infos, "action_mask": np.ones_like(infos["action_mask"])}

    (found, *_) = findings_with(AllLegal)
    assert "action_mask of environment" in found


def test_words_that_differ_from_those_of_single_environments_are_caught(findings_with):
    class Shouts(Altered):
        def step(self, actions):
            texts, *others = self._envs.step(actions)
            return tuple(text.upper() for text in texts), *others

    (found, *_) = findings_with(Shouts, "gymnasium_text_vector")
    assert found.startswith("vector environment of words in mode NextStep: observation of env")


def test_a_lost_last_text_is_caught(findings_with):
    class Loses(Altered):
        def step(self, actions):
            *others, infos = self._envs.step(actions)
            if "final_obs" in infos:
                infos["final_obs"] = others[0]
            return *others, infos

    (found, *_) = findings_with(Loses, "gymnasium_text_vector")
    assert "of words in mode SameStep: final_obs of environment" in found


@pytest.mark.parametrize("check", ["gymnasium_vector", "gymnasium_text_vector"])
def test_games_that_do_not_end_in_time_are_noted(monkeypatch, stones, context_of, check):
    monkeypatch.setattr(vector, "_MAX_STEPS", 1)
    notes = list(CHECKS[check](context_of(stones)))
    assert all(note.is_note for note in notes)
    assert notes[0].wrong.startswith("not decided: no end within 1 steps of a vector environment")
