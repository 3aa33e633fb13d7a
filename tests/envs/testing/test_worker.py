"""A worker process knows games by name, and only those."""

import os
import subprocess
import sys
import textwrap
import types

import pytest
from earl_envs.testing import check_game

GAMES = """
    from earl_envs.games.tic_tac_toe import TicTacToe

    print("games are printed here")

    class Known(TicTacToe):
        pass

    class Dreaming(TicTacToe):
        def initial(self, rng):
            import os
            return (2 if os.getpid() == OWN_PROCESS else 1, 0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    source = textwrap.dedent(GAMES).replace("OWN_PROCESS", str(os.getpid()))
    (tmp_path / "worker_games.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("EARL_ENVS_GAMES", "")
    return "worker_games"


@pytest.mark.slow
def test_a_spawned_process_plays_a_built_in_game_to_the_same_state():
    report = check_game("earl/TicTacToe-v0", num_games=2, checks=["spawn_worker"])
    assert report.passed == ("declaration", "playthrough", "spawn_worker")
    assert not report.notes


@pytest.mark.slow
def test_a_spawned_process_plays_a_game_registered_by_its_name(module, register, findings_of):
    from worker_games import Known

    assert findings_of("spawn_worker", Known, num_games=2, entry=f"{module}:Known") == []


@pytest.mark.slow
def test_a_game_that_comes_out_otherwise_elsewhere_is_caught(module, findings_of):
    from worker_games import Dreaming

    (found,) = findings_of("spawn_worker", Dreaming, num_games=2, entry=f"{module}:Dreaming")
    assert found.startswith("a spawned process ")


def test_a_game_that_only_this_process_knows_is_noted(stones, findings_of):
    (found,) = findings_of("spawn_worker", stones, num_games=2)
    assert found.startswith("not decided: registered as a class, a game is known to this process")


@pytest.mark.slow
def test_a_module_that_the_worker_does_not_find_is_caught(stones, findings_of, monkeypatch):
    here = types.ModuleType("earl_made_here")
    here.Stones = stones
    monkeypatch.setitem(sys.modules, "earl_made_here", here)
    (found,) = findings_of("spawn_worker", stones, num_games=2, entry="earl_made_here:Stones")
    assert found.startswith("a spawned process cannot play the game: ValueError: game 'liar/")
    assert "No module named 'earl_made_here'" in found


@pytest.mark.slow
def test_a_script_without_a_guard_is_checked_once(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "print('run')\n"
        "from earl_envs.testing import check_game\n"
        "check_game('earl/TicTacToe-v0', num_games=2, checks=['spawn_worker'])\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ended.stdout == "run\n"
