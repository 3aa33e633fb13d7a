"""Filters, replay and a curriculum in one run, which goes on as if it had not been interrupted."""

import json
import signal

import torch
from earl_trainer.launch import run_to_end

EXPERIENCE = {
    "model": {"num_layers": 1},
    "warmup": {"num_steps": 1},
    "learner": {"num_steps": 3},
    "rollout": {"num_episodes": 8, "group_size": 4},
    "experience": {
        "filters": ["zero-variance", "duplicates"],
        "max_rounds": 2,
        "replay": "prioritised",
        "replay_share": 0.5,
        "replay_rows": 24,
        "curriculum": ["random", "first"],
        "promote_from": 0.0,
        "promote_games": 8,
    },
    "evaluation": {"num_games": 4},
}


def test_a_run_that_is_resumed_trains_on_the_same_rows_as_one_that_was_not(
    tmp_path, small_config, open_run, silent_display, repeatable_rows
):
    config = small_config(EXPERIENCE)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    display = silent_display()
    assert run_to_end(open_run(config, whole, display=display)) == 0
    assert any(note.startswith("curriculum: level 2 opens, first") for note in display.notes)

    pending = [2]

    def press(step, stage):
        if stage == "update" and step in pending:
            pending.clear()
            signal.raise_signal(signal.SIGINT)

    assert run_to_end(open_run(config, parts, display=silent_display(press))) == 0
    assert len(repeatable_rows(parts)) == 3
    assert run_to_end(open_run(config, parts, resume=True)) == 0

    rows = repeatable_rows(whole)
    assert repeatable_rows(parts) == rows
    left, right = (
        torch.load(folder / "checkpoints" / "step-000004" / "replay.pt", weights_only=True)
        for folder in (whole, parts)
    )
    assert left["first"] == right["first"]
    assert torch.equal(left["priorities"], right["priorities"])

    trained = [row for row in rows if row["phase"] == "rl"]
    assert [row["replay/rows"] > 0 for row in trained] == [False, True, True]
    assert max(row["staleness/max"] for row in trained) > 0
    for row in trained:
        assert row["policy/skipped_updates"] == 0
        assert row["filter/rounds"] in (1.0, 2.0)
    lines = [json.loads(line) for line in (whole / "episodes.jsonl").read_text().splitlines()]
    played = [line for line in lines if line["phase"] == "rl"]
    assert {line["level"] for line in played} == {"random", "first"}
    for row in trained:
        of_step = [line for line in played if line["step"] == row["step"]]
        for name in ("zero-variance", "duplicates"):
            dropped = sum(line.get("dropped_by") == name for line in of_step)
            assert dropped == row[f"filter/{name}"]
