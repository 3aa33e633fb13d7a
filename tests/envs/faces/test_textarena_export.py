"""Games made known to TextArena, which is imported no sooner."""

import subprocess
import sys

import pytest
from earl_envs.faces.textarena_export import register_with_textarena


def test_a_registered_game_is_made_with_its_parameters_and_refused_twice(registered_games):
    textarena = pytest.importorskip("textarena")
    register_with_textarena("faces/Climb-v0")
    env = textarena.make("faces/Climb-v0-raw")
    env.reset(num_players=1, seed=0)
    assert env.record().game_id == "faces/Climb-v0"
    with pytest.raises(ValueError, match="already registered"):
        register_with_textarena("faces/Climb-v0")
    with pytest.raises(ValueError, match="unknown game"):
        register_with_textarena("faces/Clim-v0")


def test_without_textarena_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "textarena", None)
    monkeypatch.delitem(sys.modules, "earl_envs.faces.textarena_env", raising=False)
    with pytest.raises(ImportError, match=r"pip install earl-envs\[textarena\]"):
        register_with_textarena("earl/TicTacToe-v0")


@pytest.mark.slow
def test_the_export_is_imported_without_textarena():
    code = (
        "import sys; import earl_envs.faces.textarena_export; assert 'textarena' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
