"""Files of one JSON object a line, also over a resume."""

import json

from earl_trainer.tracking.sinks import JsonLines, MetricsFile


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_rows_are_on_disk_at_once(tmp_path):
    lines = JsonLines(tmp_path / "a.jsonl", 0)
    lines.write({"step": 0, "text": "é\n"})

    assert rows_of(tmp_path / "a.jsonl") == [{"step": 0, "text": "é\n"}]
    assert lines.num_bytes == (tmp_path / "a.jsonl").stat().st_size
    lines.close()


def test_a_resumed_file_goes_on_from_the_checkpoint(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = JsonLines(path, 0)
    for step in range(3):
        lines.write({"step": step})
    at_checkpoint = lines.num_bytes
    for step in range(3, 6):
        lines.write({"step": step, "lost": True})
    lines.close()

    resumed = JsonLines(path, at_checkpoint)
    assert resumed.num_bytes == at_checkpoint
    for step in range(3, 5):
        resumed.write({"step": step})
    resumed.close()

    assert rows_of(path) == [{"step": step} for step in range(5)]


def test_a_new_run_starts_an_empty_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("old\n")
    JsonLines(path, 0).close()

    assert path.read_text() == ""


def test_steps_and_matches_are_rows_in_their_order(tmp_path, make_record, match):
    path = tmp_path / "metrics.jsonl"
    sink = MetricsFile(JsonLines(path, 0))
    record = make_record()
    sink.log_step(record)
    sink.log_evaluation("after", 7, match)
    sink.close()

    step, after = rows_of(path)
    assert after == {
        "step": 7,
        "evaluation": "after",
        **{f"evaluation/{key}": value for key, value in match.to_dict().items()},
    }
    assert step == {
        "step": 6,
        "phase": "rl",
        "selector/reason": "only degree: holds 5 of 9 tokens",
        "selector/decision": '{"tp": 1}',
        **record.metrics,
    }


def test_a_file_is_taken_back_to_what_it_held(tmp_path):
    lines = JsonLines(tmp_path / "a.jsonl", 0)
    lines.write({"step": 0})
    kept = lines.num_bytes
    lines.write({"step": 1, "lost": True})
    lines.rewind(kept)
    assert lines.num_bytes == kept
    lines.write({"step": 1})
    lines.close()
    assert rows_of(tmp_path / "a.jsonl") == [{"step": 0}, {"step": 1}]


def test_a_checkup_is_a_row_of_its_own(tmp_path, checkup):
    sink = MetricsFile(JsonLines(tmp_path / "a.jsonl", 0))
    sink.log_checkup(checkup)
    sink.close()
    (row,) = rows_of(tmp_path / "a.jsonl")
    assert row == {"step": 20, **checkup.figures()}
    assert "phase" not in row
