"""What a run logs to W&B, kept by a server that drops whatever does not go forward."""

import json
import signal
from collections import defaultdict
from fnmatch import fnmatch

import pytest
from earl_trainer.launch import run_to_end

LOGGED = {
    "model": {"num_layers": 1},
    "warmup": {"num_steps": 1},
    "learner": {"num_steps": 4},
    "rollout": {"num_episodes": 8, "group_size": 4},
    "algorithm": {"kl_coefficient": 0.1, "kl_in": "reward"},
    "experience": {
        "filters": ["duplicates"],
        "replay_share": 0.5,
        "curriculum": ["random", "first"],
    },
    "evaluation": {"num_games": 4, "every_steps": 2, "checkup_games": 4},
    "tracking": {"wandb": "offline", "checkpoint_every_steps": 2},
}
STEP_AXES = {"train_step", "evaluation_step", "checkup/step"}


class Server:
    """Keeps runs by their ids, as W&B does: rows of a step that is past are dropped.

    A point of a chart stands at the latest value of its axis. One without an axis of its own
    stands at the internal step, which counts whatever is logged.
    """

    def __init__(self):
        self.axes = {}
        self.step = -1
        self.charts = defaultdict(dict)
        self.dropped = []

    def init(self, **settings):
        self.settings = settings
        self.summary = {}
        return self

    def define_metric(self, name, *, step_metric):
        self.axes[name] = step_metric

    def log(self, row, step=None):
        step = self.step + 1 if step is None else step
        if step <= self.step:
            self.dropped.append(row)
            return
        self.step = step
        for name, value in row.items():
            axis = next((axis for glob, axis in self.axes.items() if fnmatch(name, glob)), None)
            place = step if axis is None else row[axis]
            self.charts[name, axis][place] = value

    def finish(self):
        pass


@pytest.fixture
def server(monkeypatch):
    fake = Server()
    monkeypatch.setattr("earl_trainer.tracking.wandb_sink.wandb.init", fake.init)
    monkeypatch.setattr("earl_trainer.tracking.wandb_sink.wandb.Image", lambda path: path)
    return fake


def test_no_figure_is_lost_over_checkups_a_save_and_a_resume(
    tmp_path, small_config, open_run, silent_display, server
):
    pending = [4]

    def press(step, stage):
        if stage == "prepare" and step in pending:
            pending.clear()
            signal.raise_signal(signal.SIGINT)

    config, folder = small_config(LOGGED), tmp_path / "run"
    assert run_to_end(open_run(config, folder, display=silent_display(press))) == 0
    before = server.settings["id"]
    assert run_to_end(open_run(config, folder, resume=True)) == 0
    assert server.settings["id"] == before
    assert server.settings["resume"] == "allow"

    assert not pending
    assert not server.dropped
    written = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    steps = [row for row in written if "phase" in row]
    assert [row["step"] for row in steps] == [0, 1, 2, 3, 4]
    groups = set()
    for row in steps:
        for name, value in row.items():
            if "/" in name:
                groups.add(name.partition("/")[0])
                assert server.charts[name, "train_step"][row["step"]] == value, name
    assert {"advantage", "filter", "replay", "curriculum"} <= groups
    checkups = [row for row in written if "checkup/score" in row]
    assert [row["checkup/step"] for row in checkups] == [0, 2, 4, 5]
    for row in checkups:
        place = row["checkup/step"]
        assert server.charts["checkup/score", "checkup/step"][place] == row["checkup/score"]
    matches = server.charts["evaluation/win_rate", "evaluation_step"]
    assert sorted(matches) == [0, 1, 5]
    # Nothing that has a group stands at the internal step, which counts matches and checkups too.
    assert not [name for name, axis in server.charts if "/" in name and axis not in STEP_AXES]
