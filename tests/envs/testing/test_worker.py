"""A worker process knows installed games, and only those."""

import pytest


@pytest.mark.slow
def test_a_spawned_process_plays_a_built_in_game_to_the_same_state():
    from earl_envs.testing import check_game

    report = check_game("earl/TicTacToe-v0", num_games=2, checks=["spawn_worker"])
    assert report.passed == ("declaration", "playthrough", "spawn_worker")


@pytest.mark.slow
def test_a_game_that_only_this_process_knows_is_caught(stones, findings_of):
    (found,) = findings_of("spawn_worker", stones, num_games=2)
    assert found.startswith("a spawned process cannot play the game: ValueError: unknown game 'lia")
    assert "entry points" in found
