"""An offline W&B run, read back from its file; and where a run is logged."""

import base64
import json
import struct
import time

import pytest
from earl_trainer.tracking.wandb_sink import WandbSink, choose_mode

BLOCK_BYTES = 32768
FILE_HEADER_BYTES = 7
CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length, kind
FULL, LAST = 1, 4
# One white point.
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAG7buVgAAAABJRU5ErkJggg=="
)


def read_records(path):
    """Read the LevelDB log that W&B writes offline: chunks in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    content = path.read_bytes()
    place, record, records = FILE_HEADER_BYTES, b"", []
    while place + CHUNK_HEADER.size <= len(content):
        left = BLOCK_BYTES - place % BLOCK_BYTES
        if left < CHUNK_HEADER.size:
            place += left
            continue
        _, length, kind = CHUNK_HEADER.unpack_from(content, place)
        place += CHUNK_HEADER.size
        record += content[place : place + length]
        place += length
        if kind in {FULL, LAST}:
            parsed = wandb_internal_pb2.Record()
            parsed.ParseFromString(record)
            records.append(parsed)
            record = b""
    return records


def read_finished_run(path):
    """Read a run once its last record is on disk, which may be a moment after `finish`."""
    deadline_s = time.monotonic() + 10.0
    while True:
        records = read_records(path)
        if records and records[-1].WhichOneof("record_type") == "exit":
            return records
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def items_of(message):
    return {".".join(item.nested_key) or item.key: json.loads(item.value_json) for item in message}


@pytest.fixture
def no_key(tmp_path, monkeypatch):
    for name in ("WANDB_API_KEY", "WANDB_MODE", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.slow
def test_an_offline_run_holds_every_step_match_and_the_config(
    tmp_path, no_key, make_record, match, checkup
):
    sink = WandbSink(
        tmp_path,
        project="p",
        name="n",
        run_id="abc12345",
        mode="offline",
        config={"seed": 7, "model": {"name": "tiny"}},
    )
    rare = ("mismatch/kl", "end/finished", "staleness/max", "drift/max", "async/wait_s")
    rare += ("guard/kl", "tokens/trained", "advantage/reference_kl", "filter/rounds")
    rare += ("replay/rows", "curriculum/open_levels")
    records = [make_record(0, **dict.fromkeys(rare, 0.5)), make_record(1)]
    sink.log_evaluation("initial", 0, match)
    sink.log_step(records[0])
    sink.log_step(records[1])
    sink.log_evaluation("after", 2, match)
    sink.log_checkup(checkup)
    (tmp_path / "run.png").write_bytes(PICTURE)
    sink.log_results({"gain": {"low": 0.125}}, tmp_path / "run.png")
    sink.close()

    (path,) = tmp_path.glob("wandb/offline-run-*/run-abc12345.wandb")
    written = read_finished_run(path)
    history = [
        items_of(record.history.item)
        for record in written
        if record.WhichOneof("record_type") == "history"
    ]
    steps = [row for row in history if "train_step" in row]
    matches = [row for row in history if "evaluation_step" in row]
    assert [row["train_step"] for row in steps] == [0, 1]
    for row, record in zip(steps, records, strict=True):
        assert {name: row[name] for name in record.metrics} == record.metrics
        reason = "only degree: holds 5 of 9 tokens"
        assert (row["phase"], row["selector/reason"]) == ("rl", reason)
        assert row["selector/decision"] == '{"tp": 1}'
    assert [row["evaluation_step"] for row in matches] == [0, 2]
    assert matches[1]["evaluation/win_rate"] == 0.613

    # Every figure of a step has the step as its axis, every figure of a match that of matches.
    axes = {
        (record.metric.name or record.metric.glob_name): record.metric.step_metric
        for record in written
        if record.WhichOneof("record_type") == "metric"
    }
    groups = {name.split("/")[0] for name in records[0].metrics}
    assert {axes[f"{group}/*"] for group in groups} == {"train_step"}
    assert axes["evaluation/*"] == "evaluation_step"
    assert axes["checkup/*"] == "checkup/step"
    (checked,) = [row for row in history if "checkup/step" in row]
    assert {name: checked[name] for name in checkup.figures()} == checkup.figures()

    run = next(record.run for record in written if record.WhichOneof("record_type") == "run")
    assert (run.run_id, run.project, run.display_name) == ("abc12345", "p", "n")
    assert items_of(run.config.update)["model"] == {"name": "tiny"}
    summary = {}
    for record in written:
        if record.WhichOneof("record_type") == "summary":
            summary |= items_of(record.summary.update)
    assert summary["evaluation_initial/win_rate"] == summary["evaluation_after/win_rate"] == 0.613
    assert summary["results"] == {"gain": {"low": 0.125}}
    (picture,) = (row["picture.path"] for row in history if "picture.path" in row)
    assert (path.parent / "files" / picture).read_bytes() == PICTURE


def test_auto_is_offline_without_a_key(no_key):
    assert choose_mode("auto") == ("offline", "no key is set")


def test_auto_is_online_with_a_key_in_the_environment(no_key, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    assert choose_mode("auto") == ("online", "a key is set")


@pytest.mark.parametrize(("host", "mode"), [("api.wandb.ai", "online"), ("example.org", "offline")])
def test_auto_is_online_with_a_login_for_the_host(no_key, tmp_path, host, mode):
    (tmp_path / ".netrc").write_text(f"machine {host}\n login user\n password {'k' * 40}\n")
    (tmp_path / ".netrc").chmod(0o600)

    assert choose_mode("auto")[0] == mode


def test_a_broken_netrc_is_no_key(no_key, tmp_path):
    (tmp_path / ".netrc").write_text("machine\n nonsense")

    assert choose_mode("auto") == ("offline", "no key is set")


@pytest.mark.parametrize("wish", ["online", "offline", "disabled"])
def test_the_environments_wish_comes_before_a_key(no_key, monkeypatch, wish):
    monkeypatch.setenv("WANDB_MODE", wish)
    assert choose_mode("auto") == (wish, "WANDB_MODE")
    monkeypatch.setenv("WANDB_API_KEY", "k" * 40)
    assert choose_mode("auto") == (wish, "WANDB_MODE")


@pytest.mark.parametrize("setting", ["online", "offline"])
def test_a_setting_comes_before_everything(no_key, monkeypatch, setting):
    monkeypatch.setenv("WANDB_MODE", "offline" if setting == "online" else "online")
    assert choose_mode(setting) == (setting, "tracking.wandb")
