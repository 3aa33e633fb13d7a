"""Runs whose episodes are also rewarded by functions that work, fail, and are killed."""

import json
import os
import signal
import time
from pathlib import Path

import pytest
import torch
from earl_trainer.launch import run_to_end
from earl_trainer.phases import RL

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FUNCTIONS = ROOT / "tests" / "trainer" / "rewards" / "functions"
SHORT = {
    "warmup": {"num_steps": 2, "lr_warmup_steps": 1},
    "learner": {"num_steps": 2},
    "evaluation": {"num_games": 4},
}


@pytest.fixture(autouse=True)
def find_functions(monkeypatch):
    """Let reward processes find the functions, those of other processes of the run as well."""
    monkeypatch.syspath_prepend(FUNCTIONS)
    paths = [str(FUNCTIONS), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.fixture
def find_processes(monkeypatch):
    """Find this test's reward processes, by what whoever started them has handed on."""
    token = f"{os.getpid()}-{time.monotonic_ns()}".encode()
    monkeypatch.setenv("TEST_OF_REWARDS", token.decode())

    def find():
        found = []
        for folder in Path("/proc").iterdir():
            try:
                is_one = b"earl_trainer.rewards.child" in (folder / "cmdline").read_bytes()
                if is_one and token in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    return find


@pytest.fixture
def train(small_config, open_run, tmp_path):
    """Train a small run to its end; return its weights, steps and episodes of the second phase."""

    def train(name, *overrides, display=None):
        run = open_run(small_config(SHORT, *overrides), tmp_path / name, display=display)
        assert run_to_end(run) == 0
        rows = {}
        for kind in ("metrics", "episodes"):
            lines = (tmp_path / name / f"{kind}.jsonl").read_text().splitlines()
            rows[kind] = [row for row in map(json.loads, lines) if row.get("phase") == RL]
        weights = {key: value.clone() for key, value in run.model.state_dict().items()}
        return weights, rows["metrics"], rows["episodes"]

    return train


def are_equal(weights, others):
    return all(torch.equal(value, others[name]) for name, value in weights.items())


def test_the_reward_of_a_function_is_what_is_learned_from(train):
    without, _, plain = train("without")
    functions = ("odd_rewards:num_moves=2.0", "odd_rewards:minus_tokens=0.0")
    unweighted, _, unmoved = train("unweighted", {"reward": {"functions": functions[1:]}})
    weighted, steps, episodes = train("weighted", {"reward": {"functions": functions}})

    # Counting a function by 0 changes nothing but what is reported.
    assert are_equal(without, unweighted)
    assert [row["reward"] for row in unmoved] == [row["reward"] for row in plain]
    assert not are_equal(without, weighted)
    first = [row for row in episodes if row["step"] == steps[0]["step"]]
    for row, before in zip(first, plain, strict=False):
        # The same games, rewarded otherwise; their results stay what they were.
        assert row["moves"] == before["moves"]
        assert row["outcome"] == before["outcome"]
        assert row["rewards"]["num_moves"] == len(row["moves"])
        assert row["reward"] == pytest.approx(before["reward"] + 2.0 * len(row["moves"]))
        assert row["rewards"]["minus_tokens"] < 0
    values = [row["rewards"]["num_moves"] for row in first]
    assert steps[0]["reward/mean_num_moves"] == pytest.approx(sum(values) / len(values))
    rewards = [row["reward"] for row in first]
    assert steps[0]["reward/mean"] == pytest.approx(sum(rewards) / len(rewards))
    assert steps[0]["game/win_rate"] == sum(row["outcome"] > 0 for row in first) / len(first)
    assert steps[0]["reward/wait_s"] >= 0.0


def test_what_replies_did_is_learned_from_where_they_did_it(train):
    turns = {"algorithm": {"name": "ppo"}, "advantage": {"step": "turn"}}
    without, _, plain = train("without", turns)
    shaped, steps, episodes = train("with", turns, {"reward": {"functions": ("value_shaping",)}})
    first = [row for row in episodes if row["step"] == steps[0]["step"]]
    for row, before in zip(first, plain, strict=False):
        # Nobody who begins a game of Tic-Tac-Toe is ahead: over an episode nothing is added.
        parts = row["reply_rewards"]["value_shaping"]
        assert len(parts) == len(row["replies"])
        assert row["rewards"]["value_shaping"] == sum(parts) == 0.0
        assert row["reward"] == before["reward"]
    assert any(any(row["reply_rewards"]["value_shaping"]) for row in first)
    assert not are_equal(without, shaped)


def test_a_function_that_fails_now_and_then_costs_only_those_episodes(train):
    _, steps, episodes = train("run", {"reward": {"functions": ("odd_rewards:fail_if_even",)}})
    failed = [row for row in episodes if len(row["moves"]) % 2 == 0]
    assert 0 < len(failed) < len(episodes)
    for row in failed:
        assert row["rewards"] == {"fail_if_even": None}
        assert "reward fail_if_even: error: ValueError: even" in row["detail"]
        assert row["reward"] is None
    assert sum(step["reward/error_failures"] for step in steps) == len(failed)
    assert sum(step["reward/dropped_episodes"] for step in steps) == len(failed)
    assert sum(step["dispatch/rows"] for step in steps) == len(episodes) - len(failed)


def test_a_run_goes_on_when_its_reward_process_is_killed(train, silent_display, find_processes):
    killed = []

    def kill(step, stage):
        if stage == "prepare":
            for pid in find_processes():
                killed.append(pid)
                os.kill(pid, signal.SIGKILL)

    _, steps, episodes = train(
        "run",
        {"reward": {"functions": ("odd_rewards:minus_tokens",)}, "learner": {"num_steps": 3}},
        display=silent_display(kill),
    )
    assert len(set(killed)) == 3
    assert not find_processes()
    assert all(row["rewards"]["minus_tokens"] is not None for row in episodes)
    assert sum(step["reward/crash_failures"] for step in steps) == 0


def test_functions_that_always_fail_end_the_run_with_what_they_said(
    small_config, open_run, tmp_path, silent_display
):
    display = silent_display()
    config = small_config(SHORT, {"reward": {"functions": ("odd_rewards:fail",)}})
    assert run_to_end(open_run(config, tmp_path, display=display)) == 1
    (said,) = [note for note in display.notes if note.startswith("earl: ")]
    assert "none of 16 episodes gave anything to train on" in said
    assert "reward fail: error: ValueError: no such move" in said


def test_a_function_that_is_not_there_leaves_no_folder(small_config, open_run, tmp_path):
    config = small_config({"reward": {"functions": ("odd_rewards:nothing",)}})
    with pytest.raises(ValueError, match="odd_rewards has no function 'nothing'"):
        open_run(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_workers_that_generate_all_the_while_have_functions_of_their_own(
    train, find_processes, monkeypatch
):
    # The example's functions, found as its command finds them: in the folder of the start.
    monkeypatch.chdir(ROOT)
    functions = ("examples.own_rewards:quick_win=0.3", "examples.own_rewards:centre=0.5")
    _, steps, episodes = train("run", {"max_staleness": 2, "reward": {"functions": functions}})
    deadline_s = time.monotonic() + 10.0
    while find_processes():
        assert time.monotonic() < deadline_s, "they outlive their worker"
        time.sleep(0.05)
    assert {row["rewards"]["centre"] for row in episodes} == {0.0, 1.0}
    for row in episodes:
        assert row["rewards"]["centre"] == (4 in row["moves"][row["seat"] :: 2])
        penalty = 0.5 * (row["end_reason"] in {"illegal_move", "unparsable"})
        bonus = 0.3 * row["rewards"]["quick_win"] + 0.5 * row["rewards"]["centre"]
        assert row["reward"] == pytest.approx(row["outcome"] - penalty + bonus)
    assert all("reward/wait_s" in step for step in steps)
    done = steps[-1]
    assert done["async/submitted_groups"] == (
        done["async/accepted_groups"] + done["async/rejected_groups"] + done["async/running_groups"]
    )
