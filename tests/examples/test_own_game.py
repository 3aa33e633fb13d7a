"""The example runs as its first lines say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "own_game.py"


def run_example(*flags, cwd):
    return subprocess.run(
        [sys.executable, EXAMPLE, *flags], cwd=cwd, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_a_process_that_imports_the_example_anew_knows_the_game():
    code = (
        "import runpy, sys; import earl_envs\n"
        "runpy.run_path(sys.argv[1], run_name='__mp_main__')\n"
        "print(earl_envs.make_game('me/LastStone-v0').max_moves)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, EXAMPLE], capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == "11\n", ran.stderr


@pytest.mark.slow
def test_a_game_of_ones_own_is_trained_like_a_built_in_one(tmp_path):
    quick = [
        "--warmup.num-steps", "40", "--learner.num-steps", "4", "--rollout.num-episodes", "64",
        "--evaluation.num-games", "100", "--model.hidden-size", "64", "--model.num-layers", "2",
        "--tracking.wandb", "disabled", "--selector.num-devices", "1", "--selector.tp-degrees", "1",
    ]  # fmt: skip
    result = run_example("--run-dir", "run", *quick, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    evaluation = json.loads((tmp_path / "run" / "summary.json").read_text())["evaluation"]
    # Imitation of random legal play is enough to know the rules.
    assert evaluation["before"]["illegal_rate"] < evaluation["initial"]["illegal_rate"]
    assert evaluation["after"]["illegal_rate"] < 0.1

    again = run_example("--run-dir", "run", cwd=tmp_path)
    assert again.returncode == 2
    assert again.stderr.startswith("own_game: 'run' already holds a run")
    assert again.stderr.count("\n") == 1
