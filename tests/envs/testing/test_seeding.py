"""Games whose chance comes from elsewhere, or whose copies go astray, are caught."""

import subprocess
import sys

import numpy as np
import pytest
from earl_envs.games.tic_tac_toe import TicTacToe

SEEDING = ["seed_control", "episode_determinism", "episode_isolation", "global_random_state",
           "clone", "record"]  # fmt: skip


@pytest.mark.parametrize("check", SEEDING)
def test_honest_games_pass(check, stones, findings_of):
    assert findings_of(check, stones) == []
    assert findings_of(check, TicTacToe) == []


def test_a_start_that_ignores_its_seed_is_caught(stones, findings_of):
    class Entropy(stones):
        def initial(self, rng):
            return int(np.random.default_rng().integers(5, 9)), 0

    (found, *_) = findings_of("seed_control", Entropy)
    assert found.startswith("initial() must give one start for one seed, got several")


def test_a_draw_that_changes_nothing_is_caught(stones, findings_of):
    class Wasted(stones):
        def initial(self, rng):
            rng.integers(5, 9)
            return 8, 0

    assert findings_of("seed_control", Wasted) == [
        "initial() draws from rng, but 32 seeds gave one start"
    ]


def test_chance_outside_the_state_is_caught(stones, findings_of):
    class Dice(stones):
        def apply(self, state, action):
            return state[0] - int(np.random.default_rng().integers(1, state[0] + 1)), 1 - state[1]

    (found, *_) = findings_of("episode_determinism", Dice)
    assert found.startswith("seed and moves ")
    assert "at seed " in found


def test_games_that_share_something_are_caught(stones, findings_of):
    class Shared(stones):
        def __init__(self):
            self.taken = 0

        def initial(self, rng):
            self.taken = 0
            return super().initial(rng)

        def apply(self, state, action):
            self.taken += action + 1
            return (*super().apply(state, action), self.taken)

        def returns(self, state):
            return super().returns(state[:2])

    (found, *_) = findings_of("episode_isolation", Shared)
    assert found.startswith("another game played in turns with this one made it end in (0, ")


def test_use_of_numpys_global_chance_is_caught(stones, findings_of):
    class Global(stones):
        def text(self, state, seat):
            np.random.random()  # noqa: NPY002
            return super().text(state, seat)

    (found,) = findings_of("global_random_state", Global)
    assert found.startswith("playing changed the process-global state of numpy.random: ")


def test_use_of_pythons_global_chance_is_caught():
    # In a process of its own: these tests run under a checker that draws from `random` itself.
    code = """if True:
        import random
        from earl_envs import register_game
        from earl_envs.games.tic_tac_toe import TicTacToe
        from earl_envs.testing import GameCheckError, check_game

        class Global(TicTacToe):
            def initial(self, rng):
                random.seed(0)
                return super().initial(rng)

        register_game("liar/Global-v0", Global)
        for game_id in ("earl/TicTacToe-v0", "liar/Global-v0"):
            try:
                print(check_game(game_id, num_games=3, checks=["global_random_state"]))
            except GameCheckError as error:
                print(error)
    """
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.startswith(
        "earl/TicTacToe-v0: 3 of 3 checks passed\nliar/Global-v0: 2 of 3"
    )
    assert "playing changed the process-global state of random: " in ended.stdout


class Forgetful(tuple):
    """A state that loses its stones when copied or pickled."""

    __slots__ = ()

    def __reduce__(self):
        return Forgetful, ((1, self[1]),)


def test_a_copy_that_is_another_state_is_caught(stones, findings_of):
    class Loses(stones):
        def initial(self, rng):
            return Forgetful(super().initial(rng))

    found = findings_of("clone", Loses)
    assert found[0].startswith("deepcopy of the state differs from it: (1, 0)")
    assert found[1].startswith("pickle of the state ")


def test_a_state_that_cannot_be_pickled_is_caught(stones, findings_of):
    class Closure(stones):
        def initial(self, rng):
            return (*super().initial(rng), lambda: None)

        def apply(self, state, action):
            return (*super().apply(state[:2], action), state[2])

    (found, *_) = findings_of("clone", Closure)
    assert found.startswith("pickle of the state raises ")


def test_a_game_that_does_not_replay_from_its_record_is_caught(stones, findings_of):
    class Counts(stones):
        made = 0

        def initial(self, rng):
            type(self).made += 1
            return (*super().initial(rng), self.made)

        def apply(self, state, action):
            return (*super().apply(state[:2], action), state[2])

    (found, *_) = findings_of("record", Counts)
    assert found.startswith("its record replays to another state")
