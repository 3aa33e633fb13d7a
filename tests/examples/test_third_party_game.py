"""A game in a package of its own works like a built-in one once it is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "third_party_game"
# `uv run` says which uv it is; it need not be on the path.
UV = os.environ.get("UV") or shutil.which("uv")
GAME_ID = "me/LastStone-v0"

USE_IT = """
import multiprocessing
import earl_envs, gymnasium

def moves_in_worker(game_id):
    import earl_envs
    return earl_envs.make_game(game_id).max_moves

def make_by_id():
    import gymnasium
    return gymnasium.make("earl_envs:me/LastStone-v0")

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(moves_in_worker, ["me/LastStone-v0"]) == 11
    env = gymnasium.make("me/LastStone-v0", opponent="random", seat=1)
    assert env.reset(seed=0)[1]["action_mask"].tolist() == [1, 1, 1]
    text = gymnasium.make("me/LastStone-Text-v0").reset(seed=0)[0]
    assert text.endswith(" stones left"), text
    envs = gymnasium.make_vec("me/LastStone-v0", num_envs=3)
    assert envs.reset(seed=0)[1]["action_mask"].shape == (3, 3)
    for env_id in ("me/LastStone-v0", "earl_envs:me/LastStone-v0"):
        workers = gymnasium.make_vec(
            env_id, num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"}
        )
        assert workers.reset(seed=0)[1]["action_mask"].tolist() == [[1, 1, 1]] * 2
        assert workers.step([0, 2])[1].tolist() == [0, 0]
        workers.close()
    unnamed = gymnasium.vector.AsyncVectorEnv([make_by_id] * 2, context="spawn")
    assert unnamed.reset(seed=0)[0].shape[0] == 2
    unnamed.close()
"""

CHECK_IT = """
from earl_envs.testing import CHECKS, check_game

if __name__ == "__main__":
    report = check_game("me/LastStone-v0", checks=CHECKS)
    assert report.passed == tuple(CHECKS), report
"""

ASK_RAY = """
import ray

@ray.remote
def max_moves(game_id):
    import earl_envs
    return earl_envs.make_game(game_id).max_moves

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
assert ray.get(max_moves.remote("me/LastStone-v0"), timeout=60) == 11
ray.shutdown()
"""


def run(*command: str | Path, cwd: Path = ROOT, timeout_s: float = 300) -> str:
    # Below `uv run`, Ray would start its workers in that command's environment instead of this one.
    env = {**os.environ, "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
    result = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def uv(*arguments: str | Path) -> str:
    if UV is None:
        pytest.fail("uv is not on the path: pip install uv")
    return run(UV, *arguments)


def test_the_guide_shows_the_example_word_for_word():
    guide = (ROOT / "docs" / "add_a_game.md").read_text()
    (game,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    (entry_point,) = re.findall(r"```toml\n(.*?)```", guide, re.DOTALL)
    assert game == (EXAMPLE / "src" / "last_stone" / "__init__.py").read_text()
    assert entry_point in (EXAMPLE / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the example's wheel and ours, each as its users would install it."""
    folder = tmp_path_factory.mktemp("third_party")
    wheels, venv = folder / "wheels", folder / "venv"
    source = folder / "source"
    shutil.copytree(EXAMPLE, source, ignore=shutil.ignore_patterns("__pycache__"))
    uv("build", "--quiet", "--wheel", "--out-dir", wheels, source)
    uv("build", "--quiet", "--wheel", "--all-packages", "--out-dir", wheels)
    locked = uv("export", "--quiet", "--frozen", "--no-hashes", "--no-emit-workspace")
    (wheels / "constraints.txt").write_text(locked)
    uv("venv", "--quiet", "--python", sys.executable, venv)
    uv(
        "pip", "install", "--quiet", "--python", venv / "bin" / "python", "--find-links", wheels,
        "--constraint", wheels / "constraints.txt", *wheels.glob("*.whl"), "ray",
    )  # fmt: skip
    return venv / "bin"


@pytest.mark.slow
@pytest.mark.parametrize("script", [USE_IT, CHECK_IT, ASK_RAY], ids=["use", "check", "ray"])
def test_the_installed_game_is_known_everywhere(script: str, installed: Path, tmp_path: Path):
    (tmp_path / "script.py").write_text(script)
    run(installed / "python", "script.py", cwd=tmp_path)


@pytest.mark.slow
def test_the_installed_game_is_listed_and_shown(installed: Path, tmp_path: Path):
    listed = run(installed / "earl", "games", cwd=tmp_path)
    assert re.search(rf"^{GAME_ID} +2 +3 +11 +-$", listed, re.MULTILINE)
    assert "stones left" in run(installed / "earl", "games", GAME_ID, cwd=tmp_path)
