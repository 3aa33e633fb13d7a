"""Environments that break their framework's contract, or lie about the game, are caught."""

import gymnasium
import pytest
from earl_envs.faces.gymnasium_env import GameEnv
from earl_envs.faces.gymnasium_text_env import GameTextEnv
from earl_envs.faces.pettingzoo_env import GameAECEnv, GameParallelEnv
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.testing import CHECKS, faces

FACES = ["gymnasium_env", "gymnasium_text_env", "opponent_failure", "pettingzoo_aec",
         "pettingzoo_parallel"]  # fmt: skip


@pytest.fixture
def findings_with(monkeypatch, stones, findings_of):
    """Ask a check while Gymnasium makes an environment of another class."""

    def ask(check, env_class):
        def make(env_id, **options):
            made = env_class("liar/Stones-v0", **options)
            made.spec = gymnasium.spec(env_id)
            return made

        monkeypatch.setattr(faces.gymnasium, "make", make)
        return findings_of(check, stones)

    return ask


@pytest.mark.parametrize("check", FACES)
def test_honest_games_pass(check, stones, findings_of):
    assert findings_of(check, stones) == []
    assert findings_of(check, TicTacToe) == []


def test_a_game_of_one_seat_has_faces_too(stones, findings_of):
    class Alone(stones):
        num_seats = 1

        def apply(self, state, action):
            return state[0] - action - 1, 0

        def returns(self, state):
            return None if state[0] else (1.0,)

    for check in FACES:
        assert findings_of(check, Alone) == []


def test_an_id_that_gymnasium_does_not_know_is_caught(monkeypatch, stones, findings_of):
    def make(env_id, **options):
        raise gymnasium.error.NameNotFound(f"no {env_id}")

    monkeypatch.setattr(faces.gymnasium, "make", make)
    (found,) = findings_of("gymnasium_text_env", stones)
    assert found.startswith("gymnasium.make('liar/Stones-Text-v0', seat=0) raises NameNotFound")


def test_what_check_env_refuses_is_caught(findings_with):
    class Repeats(GameEnv):
        def reset(self, *, seed=None, options=None):
            board, info = super().reset(seed=seed, options=options)
            self.num_resets = getattr(self, "num_resets", 0) + 1
            board[:] = [self.num_resets >> place & 1 for place in range(len(board))]
            return board, info

    found = findings_with("gymnasium_env", Repeats)
    assert found[0].startswith("check_env of liar/Stones-v0 in seat 0: AssertionError")


def test_a_reward_that_is_not_the_score_is_caught(findings_with):
    class Pays(GameEnv):
        def step(self, action):
            board, reward, *rest = super().step(action)
            return board, reward + 0.5, *rest

    found = findings_with("gymnasium_env", Pays)
    assert "seat 0 of (" in found[0]
    assert "was rewarded with " in found[0]
    assert "the illegal action" in found[1] or "was rewarded with " in found[1]


def test_an_illegal_reply_that_is_free_is_caught(findings_with):
    class Forgives(GameTextEnv):
        def __init__(self, game_id, **options):
            super().__init__(game_id, illegal="random_legal", **options)

    found = findings_with("gymnasium_text_env", Forgives)
    assert "must end the game with -1.0, got 0.0 and None" in found[0]


def test_a_finished_environment_that_goes_on_is_caught(findings_with):
    class GoesOn(GameEnv):
        def step(self, action):
            if getattr(self, "last", None) is None or not self.last[2]:
                self.last = super().step(action)
            return self.last

        def reset(self, **options):
            self.last = None
            return super().reset(**options)

    found = findings_with("gymnasium_env", GoesOn)
    assert "a finished environment must refuse to step" in "".join(found)


def test_a_failure_of_the_opponent_that_counts_as_a_win_is_caught(findings_with):
    class Wins(GameEnv):
        def step(self, action):
            board, reward, terminated, truncated, info = super().step(action)
            return board, reward + truncated, terminated, truncated, info

    (found,) = findings_with("opponent_failure", Wins)
    assert found.startswith("an opponent that raises must truncate the game of seat 0 with reward")
    assert found.split("\n")[0].endswith("got 1.0 and opponent_error")


def test_what_the_checkers_of_pettingzoo_refuse_is_caught(monkeypatch, stones, findings_of):
    class Vanishes(GameAECEnv):
        def observe(self, agent):
            return {}

    class Random(GameParallelEnv):
        num_steps = 0

        def step(self, actions):
            Random.num_steps += 1
            boards, rewards, *rest = super().step(actions)
            return boards, dict.fromkeys(rewards, float(self.num_steps)), *rest

    monkeypatch.setattr(faces, "pettingzoo_env", Vanishes)
    monkeypatch.setattr(faces, "pettingzoo_parallel_env", Random)
    assert findings_of("pettingzoo_aec", stones)[0].startswith("api_test: ")
    assert findings_of("pettingzoo_parallel", stones)[0].startswith("parallel_seed_test: ")


def test_games_that_do_not_end_in_time_are_noted(monkeypatch, stones, context_of):
    class Long(stones):
        max_moves = 60

        def initial(self, rng):
            return 50, 0

    monkeypatch.setattr(faces, "_MAX_STEPS", 3)
    (first, second) = CHECKS["gymnasium_env"](context_of(Long))
    assert (first.is_note, second.is_note) == (True, True)
    assert first.wrong == "not decided: seat 0 reached no end within 3 steps"
