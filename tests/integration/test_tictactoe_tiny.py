"""The main job, as its user runs it: the default recipe learns Tic-Tac-Toe.

Half of its updates are enough to pass the bar that the whole recipe has to pass; the whole one is
measured by `tools/bench_recipes.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

EARL = Path(sys.executable).with_name("earl")
SHORTER = ("--warmup.num-steps", "150", "--learner.num-steps", "30")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tictactoe")
    # Profiles go to a cache of its own: this is the first start on a machine.
    cache = {"XDG_CACHE_HOME": str(folder / "cache")}
    command = [EARL, "train", "--run-dir", "run", *SHORTER]
    result = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=900, env=os.environ | cache
    )
    assert result.returncode == 0, result.stderr
    (folder / "output.txt").write_text(result.stdout)
    return folder / "run"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_reinforcement_learning_wins_more_games_than_imitation(run_folder):
    evaluation = json.loads((run_folder / "summary.json").read_text())["evaluation"]
    before, after = evaluation["before"], evaluation["after"]
    assert min(result["games"] for result in evaluation.values()) >= 400
    assert before["illegal_rate"] < 0.10
    assert after["win_rate"] >= before["win_rate"] + 0.15
    assert after["win_rate_low"] > before["win_rate_high"]
    assert after["win_rate"] >= 0.58
    assert after["illegal_rate"] < 0.02


@pytest.mark.slow
def test_contexts_grow_until_the_degree_does_and_nothing_is_cut(run_folder):
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    steps = [row for row in map(json.loads, lines) if "phase" in row]
    degrees = [row["selector/tp"] for row in steps]
    assert (degrees[0], degrees[-1]) == (1.0, 2.0)
    for row in steps:
        assert row["selector/forecast_tokens"] <= row["selector/capacity_tokens"], row["step"]
    switch = steps[degrees.index(2.0)]
    before = steps[degrees.index(2.0) - 1]
    assert switch["selector/forecast_tokens"] > before["selector/capacity_tokens"]
    assert switch["selector/switch_bytes_moved"] == 0.0
    assert switch["drift/max_logprob_difference"] < 1e-4
    played = [row for row in steps if row["phase"] == "rl"]
    assert played[-1]["context/resident_tokens"] > 1.5 * played[0]["context/resident_tokens"]
    assert sum(row["end/context_limit"] for row in steps) == 0
    output = (run_folder.parent / "output.txt").read_text()
    assert output.count(": tp 1 -> 2: ") >= 1
    assert "speed by degree: " in output


@pytest.mark.slow
def test_the_run_leaves_everything_that_it_promises(run_folder):
    lines = (run_folder / "metrics.jsonl").read_text().splitlines()
    metrics = [row for row in map(json.loads, lines) if "phase" in row]
    matches = [row["evaluation"] for row in map(json.loads, lines) if "evaluation" in row]
    assert matches == ["initial", "before", "after"]
    output = (run_folder.parent / "output.txt").read_text().splitlines()
    assert sum(line.startswith(("warmup ", "rl ")) for line in output) == len(metrics)
    assert sum(line.startswith("evaluation ") for line in output) == 3
    assert sum(line.startswith("due to reinforcement learning: +") for line in output) == 1
    assert sum("offline" in line for line in output) == 1
    assert list((run_folder / "wandb").glob("offline-run-*/run-*.wandb"))
    assert (run_folder / "run.png").read_bytes().startswith(b"\x89PNG")
    assert "recipe: tictactoe-tiny" in (run_folder / "config.yaml").read_text()
    assert (run_folder / "episodes.jsonl").stat().st_size > 0


@pytest.mark.slow
def test_the_model_folder_plays_with_nothing_but_transformers(run_folder):
    model = AutoModelForCausalLM.from_pretrained(run_folder / "model").eval()
    tokenizer = AutoTokenizer.from_pretrained(run_folder / "model")
    # X has two in a row and wins at 3; O threatens nothing.
    messages = [{"role": "user", "content": "X X 3\nO O 6\n7 8 9"}]
    inputs = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        reply = model.generate(**inputs, max_new_tokens=4, do_sample=False)
    text = tokenizer.decode(reply[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert text.strip() in {f"[{cell}]" for cell in (3, 6, 7, 8, 9)}
