"""Environments that do otherwise than their illegal-move policy says are caught."""

import pytest
from earl_envs.faces.gymnasium_env import GameEnv
from earl_envs.faces.gymnasium_text_env import GameTextEnv
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.testing import policies


def test_honest_games_pass(stones, findings_of):
    assert findings_of("gymnasium_policies", stones) == []
    assert findings_of("gymnasium_policies", TicTacToe) == []


def test_a_game_whose_one_turn_may_be_cut_passes(stones, findings_of):
    class Short(stones):
        max_moves = 1

        def initial(self, rng):
            return 1, 0

    assert findings_of("gymnasium_policies", Short) == []


@pytest.mark.parametrize(
    ("asked", "done", "found"),
    [
        ("retry(1)", "retry(2)", "must cost -1.0, got 0.0 and None"),
        ("retry(1)", "noop", "must cost -1.0, got 0.0 and None"),
        ("retry(1)", "forfeit", "must change nothing, got reward -1.0 and moves ()"),
        ("noop", "random_legal", "must change nothing, got reward 0.0 and moves ("),
        ("random_legal", "noop", "a legal move must be played and named, got None and moves ()"),
    ],
)
def test_another_policy_than_the_one_asked_for_is_caught(
    monkeypatch, stones, findings_of, asked, done, found
):
    def make(env_id, *, illegal, **options):
        kind = GameTextEnv if "-Text-" in env_id else GameEnv
        return kind("liar/One-v0", illegal=done if illegal == asked else illegal, **options)

    class One(stones):
        """One of the two actions is illegal at the start."""

        def legal(self, state):
            return [action for action in super().legal(state) if action or state[0] < self.stones]

        stones = 6

        def initial(self, rng):
            return 6, 0

    monkeypatch.setattr(policies.gymnasium, "make", make)
    of_numbers, of_words = findings_of("gymnasium_policies", One)
    for finding, env_id in ((of_numbers, "liar/One-v0"), (of_words, "liar/One-Text-v0")):
        assert finding.startswith(f"{env_id} with illegal={asked!r}: ")
        assert found in finding
