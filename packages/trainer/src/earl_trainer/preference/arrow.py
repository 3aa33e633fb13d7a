"""Rows of the binary files of the library `datasets`, for which the extra `datasets` is there."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PARQUET, ARROW = ".parquet", ".arrow"


def read_rows(file: Path) -> Sequence[Mapping[str, Any]]:  # Any: plain values
    """Read a table of Parquet, or of Arrow's stream format as `Dataset.save_to_disk` writes it.

    Returns:
        [rows] of name of the column -> value.

    Raises:
        ValueError: If the file is broken, or the library that reads it is not installed.
    """
    if find_spec("pyarrow") is None:
        raise ValueError(
            f"{str(file)!r} needs pyarrow to be read: install earl-trainer[datasets], or write the "
            "data as JSONL, as `Dataset.to_json` does"
        )
    try:
        if file.suffix == PARQUET:
            # Any: a library that may be missing.
            parquet: Any = import_module("pyarrow.parquet")
            return parquet.read_table(file).to_pylist()
        arrow: Any = import_module("pyarrow")
        with arrow.OSFile(str(file)) as source, arrow.ipc.open_stream(source) as stream:
            return stream.read_all().to_pylist()
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot read {str(file)!r}: {error}") from error
