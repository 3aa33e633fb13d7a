"""The lines of a data set: a JSONL file, or a folder of such files, or of Parquet files."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard

_JSON_LINES = (".jsonl", ".json")
_PARQUET = ".parquet"
_TRAIN = "train"


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

    Of a folder whose files are split, as `train-00000-of-00001.parquet` beside `test-...`, only
    those are read whose name begins with `train`. Parquet needs `pyarrow`.

    Raises:
        ValueError: If there is nothing to read, or a line is no object of JSON.
    """
    return [record for file in _files(path) for record in _lines(file)]


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in (*_JSON_LINES, _PARQUET):
            raise ValueError(f"data must be JSONL or Parquet, got {str(path)!r}")
        return [path]
    if not path.is_dir():
        raise ValueError(f"there is no file or folder of data {str(path)!r}")
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    # Beside JSONL, `.json` files describe the data set.
    for suffix in (".jsonl", _PARQUET):
        found = [file for file in inside if file.suffix == suffix]
        if found:
            return [file for file in found if file.name.startswith(_TRAIN)] or found
    arrow = ", which `Dataset.to_json` makes" if any(f.suffix == ".arrow" for f in inside) else ""
    raise ValueError(f"the folder {str(path)!r} holds no .jsonl or .parquet file{arrow}")


def _lines(file: Path) -> Iterator[Record]:
    if file.suffix == _PARQUET:
        yield from _parquet_lines(file)
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


def _parquet_lines(file: Path) -> Iterator[Record]:
    if find_spec("pyarrow") is None:
        raise ValueError(
            f"{str(file)!r} needs pyarrow to be read: install it, or write the data as JSONL"
        )
    # Any: a library that may be missing.
    parquet: Any = import_module("pyarrow.parquet")
    for number, values in enumerate(parquet.read_table(file).to_pylist(), start=1):
        yield Record(file=file, number=number, values=values)


def _is_object(values: object) -> TypeGuard[Mapping[str, Any]]:  # Any: parsed JSON
    return isinstance(values, dict)
