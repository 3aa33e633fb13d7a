"""Where records go: the contract, and files of one JSON object a line."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, final, runtime_checkable

from earl_trainer.evaluation.checkup import Checkup
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.metrics import StepRecord


@runtime_checkable
class Sink(Protocol):
    """A place for the records of a run."""

    def log_step(self, record: StepRecord) -> None:
        """Take the record of one finished step."""
        ...

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Take the result of a match played before step `step`."""
        ...

    def log_checkup(self, checkup: Checkup) -> None:
        """Take what a checkup found."""
        ...

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Take what the finished run came to, and the file of its picture."""
        ...

    def close(self) -> None:
        """Finish writing."""
        ...


@final
class JsonLines:
    """A file of one JSON object a line.

    A run that goes on from a checkpoint first cuts the file to what it held at that checkpoint, so
    that nothing is there twice.

    Args:
        path: The file.
        num_bytes: How much of it to keep; 0 starts anew.
    """

    def __init__(self, path: Path, num_bytes: int) -> None:
        path.touch()
        self._file = path.open("r+", encoding="utf-8")
        self.rewind(num_bytes)

    @property
    def num_bytes(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def rewind(self, num_bytes: int) -> None:
        """Cut the file to its first bytes and go on from there."""
        self._file.truncate(num_bytes)
        self._file.seek(0, 2)

    def write(self, row: Mapping[str, object]) -> None:
        """Append one row and hand it to the operating system, so that a killed run keeps it."""
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@final
class MetricsFile:
    """`metrics.jsonl`: the figures of every step."""

    def __init__(self, lines: JsonLines) -> None:
        self._lines = lines

    def log_step(self, record: StepRecord) -> None:
        """Append a step."""
        self._lines.write({
            "step": record.step,
            "phase": record.phase,
            "selector/reason": record.decision,
            "selector/decision": record.decision_json,
            **record.metrics,
        })

    def log_evaluation(self, name: str, step: int, result: MatchResult) -> None:
        """Append a match: a line without a phase of its own between those of steps."""
        figures = {f"evaluation/{key}": value for key, value in result.to_dict().items()}
        self._lines.write({"step": step, "evaluation": name, **figures})

    def log_checkup(self, checkup: Checkup) -> None:
        """Append a checkup: a line without a phase, whose figures have names of their own."""
        self._lines.write({"step": checkup.step, **checkup.figures()})

    def log_results(self, results: Mapping[str, object], picture: Path) -> None:
        """Write nothing: they have a file of their own."""

    def close(self) -> None:
        """Close the file."""
        self._lines.close()
