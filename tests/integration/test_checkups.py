"""Checkups of the weights while a run trains."""

import json
import signal

from earl_trainer.launch import run_to_end

CHECKED = {
    "warmup": {"num_steps": 2, "lr": 1e-2},
    "learner": {"num_steps": 1},
    "evaluation": {
        "num_games": 4,
        "checkup_games": 4,
        "every_steps": 2,
        "past_selves": 1,
        "opponents": ["random", "negamax:2"],
        "optimum": True,
    },
    "tracking": {"checkpoint_every_steps": 2},
}


def checkups_of(folder):
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "checkup/score" in row]


def test_checkups_follow_a_run_and_change_nothing_of_it(
    tmp_path, small_config, open_run, repeatable_rows, silent_display
):
    pending = [2]

    def press_ctrl_c(step, stage):
        if stage == "rollout" and pending == [step]:
            pending.clear()
            signal.raise_signal(signal.SIGINT)

    config = small_config(CHECKED)
    without = {"evaluation": {"num_games": 4}, "tracking": {"checkpoint_every_steps": 2}}
    unchecked = small_config({name: CHECKED[name] for name in ("warmup", "learner")}, without)
    display = silent_display()
    assert run_to_end(open_run(config, tmp_path / "whole", display=display)) == 0
    assert run_to_end(open_run(unchecked, tmp_path / "unchecked")) == 0
    stopped = open_run(config, tmp_path / "parts", display=silent_display(press_ctrl_c))
    assert run_to_end(stopped) == 0
    assert stopped.state.step == 2
    assert run_to_end(open_run(config, tmp_path / "parts", resume=True)) == 0

    rows = repeatable_rows(tmp_path / "whole")
    assert rows == repeatable_rows(tmp_path / "unchecked") == repeatable_rows(tmp_path / "parts")
    assert rows[0]["tokens/generated"] == 0.0
    assert 0 < rows[-1]["tokens/trained"] <= rows[-1]["tokens/generated"]
    checkups = checkups_of(tmp_path / "whole")
    assert checkups == checkups_of(tmp_path / "parts")
    assert [row["step"] for row in checkups] == [0, 2, 3]
    for row in checkups:
        assert row["checkup/random/games"] == row["checkup/negamax:2/games"] == 4
        assert row["checkup/elo_low"] < row["checkup/elo"] < row["checkup/elo_high"]
        assert 0.0 <= row.get("checkup/optimal_share", 0.0) <= 1.0
    summary = json.loads((tmp_path / "whole" / "summary.json").read_text())["checkups"]
    assert summary["latest"]["checkup/step"] == 3.0
    assert summary["ratings"]["random"]["elo"] == 0.0
    assert {"negamax:2", "step-000000", "step-000003"} <= set(summary["ratings"])
    assert sum(note.startswith("checkup before step") for note in display.notes) == 3
