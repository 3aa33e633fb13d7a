"""Episodes that fail, and commands that are wrong."""

import json
import subprocess
import sys
import time
from pathlib import Path

import earl_envs
import pytest
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_trainer.cli.command import main
from earl_trainer.launch import run_to_end

EARL = Path(sys.executable).with_name("earl")
ONE_RANK = (
    "--selector.num-devices", "1", "--selector.tp-degrees", "1",
    "--rollout.games-per-episode", "1", "--rollout.games-ramp-steps", "0",
)  # fmt: skip


class FragileTicTacToe(TicTacToe):
    """Breaks when the centre is taken as the third move."""

    def apply(self, state, action):
        if action == 4 and (state[0] | state[1]).bit_count() == 2:
            raise RuntimeError("the centre gave way")
        return super().apply(state, action)


earl_envs.register_game("test/FragileTicTacToe-v0", FragileTicTacToe)


def test_failed_episodes_are_recorded_and_the_steps_go_on(
    tmp_path, small_config, open_run, repeatable_rows
):
    config = small_config({"env": "test/FragileTicTacToe-v0"})
    assert run_to_end(open_run(config, tmp_path / "run")) == 0
    rows = repeatable_rows(tmp_path / "run")
    assert len(rows) == 10
    assert sum(row["game/failed_episodes"] for row in rows) > 0
    episodes = [
        json.loads(line) for line in (tmp_path / "run" / "episodes.jsonl").read_text().splitlines()
    ]
    failed = [episode for episode in episodes if episode["end_reason"] == "env_error"]
    assert failed
    assert all("the centre gave way" in episode["detail"] for episode in failed)
    trained = [episode for episode in episodes if not episode["phase"].startswith("evaluation")]
    assert sum(row["dispatch/rows"] for row in rows) == sum(
        episode["end_reason"] != "env_error" for episode in trained
    )


def num_steps(metrics: Path) -> int:
    return metrics.read_text().count('"phase"')


def earl(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([EARL, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)


def assert_refused(arguments, said, cwd):
    result = earl(*arguments, cwd=cwd)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1, result.stderr
    for part in said:
        assert part in result.stderr
    assert not list(cwd.iterdir())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "tictactoe-tinny"], ["'tictactoe-tinny'", "tictactoe-tiny"]),
        (["train", "--sed", "1"], ["'sed'", "seed"]),
    ],
    ids=["recipe", "field"],
)
def test_a_wrong_command_is_answered_in_one_line(arguments, said, tmp_path):
    assert_refused(arguments, said, tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--algorithm", "grop"], ["'grop'", "grpo"]),
        (["train", "--rollout.max-context-tokens", "12"], ["one turn", "11", "4", "15", "12"]),
        (
            ["train", "--selector.tp-degrees", "3", "--selector.num-devices", "3"],
            ["tp 3", "4 attention heads"],
        ),
        (["train", "--env", "earl/TicTacTo-v0"], ["'earl/TicTacTo-v0'", "earl/TicTacToe-v0"]),
        (["train", "--model", "tinny"], ["'tinny'", "tiny"]),
        (["train", "--rollout.num-episodes", "7"], ["group_size", "7", "16"]),
    ],
    ids=["algorithm", "context", "tp", "game", "model", "batch"],
)
def test_a_wrong_value_is_answered_in_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["earl", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    for part in said:
        assert part in told
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_ctrl_c_saves_a_checkpoint_says_where_and_the_run_can_go_on(tmp_path):
    small = [
        *ONE_RANK, "--model.hidden-size", "32", "--model.num-layers", "2", "--model.num-heads", "2",
        "--warmup.num-steps", "4", "--warmup.num-episodes", "16", "--rollout.num-episodes", "16",
        "--rollout.group-size", "4", "--evaluation.num-games", "20",
    ]  # fmt: skip
    process = subprocess.Popen(
        [EARL, "train", *small, "--learner.num-steps", "100000", "--run-dir", "run"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    metrics = tmp_path / "run" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and num_steps(metrics) >= 6):
        assert time.monotonic() < deadline, "no step was finished within two minutes"
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    process.send_signal(2)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "Traceback" not in output + errors
    checkpoint = next((tmp_path / "run" / "checkpoints").iterdir())
    assert f"run/checkpoints/{checkpoint.name}" in output
    step = int(checkpoint.name.removeprefix("step-"))
    assert num_steps(metrics) == step

    resumed = earl(
        "train", "--resume", "run", "--learner.num-steps", str(step - 4 + 2), cwd=tmp_path
    )
    assert resumed.returncode == 0, resumed.stderr
    assert num_steps(metrics) == step + 2
    assert (tmp_path / "run" / "summary.json").exists()


@pytest.mark.slow
def test_a_killed_run_goes_on_as_if_nothing_had_happened(tmp_path, repeatable_rows):
    small = [
        *ONE_RANK, "--model.hidden-size", "32", "--model.num-layers", "2", "--model.num-heads", "2",
        "--warmup.num-steps", "4", "--warmup.num-episodes", "16", "--rollout.num-episodes", "16",
        "--rollout.group-size", "4", "--learner.num-steps", "16", "--evaluation.num-games", "20",
        "--algorithm.kl-coefficient", "0.05", "--tracking.checkpoint-every-steps", "3",
        "--tracking.wandb", "disabled",
    ]  # fmt: skip
    assert earl("train", *small, "--run-dir", "whole", cwd=tmp_path).returncode == 0
    process = subprocess.Popen(
        [EARL, "train", *small, "--run-dir", "killed"], cwd=tmp_path, stdout=subprocess.DEVNULL
    )
    metrics = tmp_path / "killed" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not (metrics.exists() and num_steps(metrics) >= 8):
        assert time.monotonic() < deadline, "not enough steps within two minutes"
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert not (tmp_path / "killed" / "summary.json").exists(), "it was killed too late"
    assert earl("train", "--resume", "killed", cwd=tmp_path).returncode == 0

    whole, killed = (tmp_path / name for name in ("whole", "killed"))
    assert repeatable_rows(killed) == repeatable_rows(whole)
    weights = [run / "model" / "model.safetensors" for run in (whole, killed)]
    assert weights[0].read_bytes() == weights[1].read_bytes()
