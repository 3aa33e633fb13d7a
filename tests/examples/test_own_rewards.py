"""The example's functions score games as their first lines say, and its command runs."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from earl_trainer.rewards.transcript import GameTranscript, Transcript

ROOT = Path(__file__).parents[2]
EARL = Path(sys.executable).with_name("earl")


def load_example():
    spec = importlib.util.spec_from_file_location("own_rewards", ROOT / "examples/own_rewards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def played(seat, *games):
    return Transcript(
        game_id="earl/TicTacToe-v0",
        seat=seat,
        replies=(),
        reply_tokens=(),
        games=tuple(
            GameTranscript(
                seed=0, moves=moves, first_reply=0, end_reason="finished", outcome=outcome
            )
            for moves, outcome in games
        ),
        outcome=0.0,
        truncated=False,
    )


def test_a_quick_win_counts_most():
    example = load_example()
    quick, slow = (0, 3, 1, 4, 2), (0, 3, 1, 4, 8, 2, 5, 7, 6, 1)
    assert example.quick_win(played(0, (quick, 1.0))) == 1.0
    assert example.quick_win(played(0, (slow, 1.0))) == 0.5
    assert example.quick_win(played(0, (quick, 1.0), (slow, 1.0))) == 0.75
    assert example.quick_win(played(1, (quick, -1.0))) == 0.0


def test_the_centre_counts_for_who_took_it():
    example = load_example()
    moves = (0, 4, 1, 3, 2)
    assert example.centre(played(1, (moves, -1.0))) == 1.0
    assert example.centre(played(0, (moves, 1.0))) == 0.0


@pytest.mark.slow
def test_the_documented_command_trains_with_them(tmp_path):
    said = (ROOT / "examples" / "own_rewards.py").read_text()
    functions = "examples.own_rewards:quick_win=0.3,examples.own_rewards:centre=0.1"
    assert functions in said
    assert functions in (ROOT / "docs" / "rewards.md").read_text()
    quick = [
        "--warmup.num-steps", "4", "--learner.num-steps", "2", "--rollout.num-episodes", "32",
        "--evaluation.num-games", "20", "--model.hidden-size", "32", "--model.num-layers", "2",
        "--model.num-heads", "2", "--tracking.wandb", "disabled",
    ]  # fmt: skip
    ran = subprocess.run(
        [EARL, "train", "tictactoe-async", "--reward.functions", functions, *quick,
         "--run-dir", tmp_path / "run"],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    rows = map(json.loads, (tmp_path / "run" / "episodes.jsonl").read_text().splitlines())
    rewarded = [row["rewards"] for row in rows if row["phase"] == "rl"]
    assert len(rewarded) == 64
    assert {row["centre"] for row in rewarded} == {0.0, 1.0}
