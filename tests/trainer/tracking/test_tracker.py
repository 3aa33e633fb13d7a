"""Everything is told to everyone, and closed in the end."""

import json

import pytest
from earl_envs import EndReason
from earl_trainer.tracking.sinks import JsonLines
from earl_trainer.tracking.tracker import Tracker


class Listener:
    """A display and a sink that remember what they heard."""

    def __init__(self, name, heard):
        self.name, self.heard = name, heard

    def log_step(self, record):
        self.heard.append((self.name, "step", record.step))

    def log_evaluation(self, name, step, result):
        self.heard.append((self.name, name, step, result.games))

    def log_checkup(self, checkup):
        self.heard.append((self.name, "checkup", checkup.step))

    def log_results(self, results, picture):
        self.heard.append((self.name, results, picture.name))

    def stage(self, name, detail=""):
        self.heard.append((self.name, name, detail))

    def note(self, text):
        self.heard.append((self.name, text))

    def close(self):
        self.heard.append((self.name, "close"))


@pytest.fixture
def heard():
    return []


@pytest.fixture
def tracker(tmp_path, heard):
    files = {name: JsonLines(tmp_path / f"{name}.jsonl", 0) for name in ("metrics", "episodes")}
    yield Tracker(
        Listener("display", heard), [Listener("sink", heard)], game_id="earl/Nim-v0", **files
    )
    for file in files.values():
        file.close()


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_sink_hears_of_steps_and_matches(
    tracker, heard, make_record, match, checkup, tmp_path
):
    tracker.log_step(make_record())
    tracker.log_evaluation("after", 7, match)
    tracker.log_checkup(checkup)
    tracker.log_results({"steps": 7}, tmp_path / "run.png")
    tracker.close()

    for name in ("display", "sink"):
        told = [what[1:] for what in heard if what[0] == name]
        results = ({"steps": 7}, "run.png")
        checked = ("checkup", 20)
        assert told == [("step", 6), ("after", 7, 400), checked, results, ("close",)]
    assert heard[-1] == ("display", "close"), "the display is closed last"
    assert [row["step"] for row in rows_of(tmp_path / "metrics.jsonl")] == [6, 7, 20]


def test_an_episode_is_a_row_with_what_was_said_and_how_it_ended(
    tracker, tmp_path, make_summary, make_turn
):
    cut = make_summary(
        turns=[make_turn([1, 2], [3, 4], cut=True), make_turn([1, 2, 3, 4, 5], [6])],
        end_reason=EndReason.ILLEGAL_MOVE,
        outcome=-1.0,
        group=5,
        detail="'[1]' is not legal now",
    )
    tracker.log_episodes("rl", 4, [make_summary(), cut], [1.0, -1.5])

    first, second = rows_of(tmp_path / "episodes.jsonl")
    assert first["end_reason"] == "finished"
    assert first["reward"] == 1.0
    assert second == {
        "step": 4,
        "phase": "rl",
        "game_id": "earl/Nim-v0",
        "episode": 0,
        "group": 5,
        "seat": 0,
        "moves": [],
        "games": [
            {
                "seed": 0,
                "first_turn": 0,
                "moves": [],
                "end_reason": "illegal_move",
                "outcome": -1.0,
                "forfeited_by": None,
                "detail": "'[1]' is not legal now",
            }
        ],
        "replies": ["", ""],
        "context_tokens": 6,
        "end_reason": "illegal_move",
        "truncated": True,
        "outcome": -1.0,
        "reward": -1.5,
        "detail": "'[1]' is not legal now",
    }


def test_positions_are_the_bytes_that_a_checkpoint_keeps(
    tracker, tmp_path, make_record, make_summary
):
    assert tracker.positions() == {"metrics": 0, "episodes": 0}
    tracker.log_step(make_record())
    tracker.log_episodes("rl", 4, [make_summary()], [1.0])

    sizes = {name: (tmp_path / f"{name}.jsonl").stat().st_size for name in tracker.positions()}
    assert tracker.positions() == sizes
    assert min(sizes.values()) > 0


def test_files_are_taken_back_to_a_checkpoint(tracker, tmp_path, make_record, make_summary):
    tracker.log_step(make_record(0))
    positions = tracker.positions()
    tracker.log_step(make_record(1))
    tracker.log_episodes("rl", 1, [make_summary()], [1.0])
    tracker.rewind(positions)
    assert tracker.positions() == positions
    assert [row["step"] for row in rows_of(tmp_path / "metrics.jsonl")] == [0]
    assert rows_of(tmp_path / "episodes.jsonl") == []
