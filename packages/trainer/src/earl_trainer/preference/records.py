"""The lines of a data set: a JSONL file, or a folder of such files, or one of Hugging Face's."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from earl_trainer.preference.arrow import ARROW, PARQUET, read_rows

_JSON_LINES = (".jsonl", ".json")
_TABLES = (PARQUET, ARROW)
_TRAIN = "train"
_CACHE = "cache-"
"""Begins the names of what `datasets` has computed beside the data of a folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One line, and where it stands."""

    file: Path
    number: int
    """From 1, as an editor counts."""
    values: Mapping[str, Any]  # Any: parsed JSON

    def problem(self, field: str, rule: str) -> ValueError:
        """Return the error that something is wrong with a field."""
        return ValueError(f"{self.file}, line {self.number}, field {field!r}: {rule}")


def read_records(path: Path) -> list[Record]:
    """Read all lines of a file, or of a folder's files in the order of their names.

    A folder holds JSONL, Parquet, or what `save_to_disk` of the library `datasets` writes. Where
    it is split, as `train-00000-of-00001.parquet` beside `test-...`, or `train/` beside `test/`,
    only files are read whose name, or whose folder's, begins with `train`. Parquet and Arrow need
    the extra `datasets`.

    Raises:
        ValueError: If there is nothing to read, or a line is no object of JSON.
    """
    return [record for file in _files(path) for record in _lines(file)]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in (*_JSON_LINES, *_TABLES):
            raise ValueError(f"data must be JSONL, Parquet or Arrow, got {str(path)!r}")
        return [path]
    if not path.is_dir():
        raise ValueError(f"there is no file or folder of data {str(path)!r}")
    inside = sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not (file.suffix == ARROW and file.name.startswith(_CACHE))
    )
    # Beside JSONL, `.json` files describe the data set.
    for suffix in (".jsonl", *_TABLES):
        found = [file for file in inside if file.suffix == suffix]
        if found:
            return [file for file in found if _is_for_training(file.relative_to(path))] or found
    raise ValueError(f"the folder {str(path)!r} holds no .jsonl, .parquet or .arrow file")


def _is_for_training(file: Path) -> bool:
    return any(part.startswith(_TRAIN) for part in file.parts)


def _lines(file: Path) -> Iterator[Record]:
    if file.suffix in _TABLES:
        for number, values in enumerate(read_rows(file), start=1):
            yield Record(file=file, number=number, values=values)
        return
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"cannot read {str(file)!r}: {error}") from error
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"{file}, line {number}: no JSON: {error}") from error
        if not _is_object(values):
            raise ValueError(f"{file}, line {number}: every line must be an object of fields")
        yield Record(file=file, number=number, values=values)


def _is_object(values: object) -> TypeGuard[Mapping[str, Any]]:  # Any: parsed JSON
    return isinstance(values, dict)
