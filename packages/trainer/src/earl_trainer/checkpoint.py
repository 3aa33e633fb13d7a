"""Checkpoints that are either whole or not there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import final

_MARKER = "COMPLETE"
_PREFIX = "step-"


@final
class CheckpointStore:
    """Numbered checkpoint folders of one run.

    A checkpoint is written under another name, flushed to disk, marked complete and only then
    renamed into place; older ones go after that. A process killed at any moment leaves the previous
    checkpoint as it was, and what it had half written is ignored and swept up by the next save.

    Example:
        >>> store = CheckpointStore(run_dir / "checkpoints", keep=2)
        >>> store.save(12, lambda folder: (folder / "weights").write_bytes(data))
        >>> store.latest()
        PosixPath('.../checkpoints/step-000012')
    """

    def __init__(self, folder: Path, *, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    def save(self, step: int, write: Callable[[Path], None]) -> Path:
        """Let `write` fill a new folder and make it the checkpoint of `step`; return its path."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for leftover in self._folder.glob(".partial-*"):
            shutil.rmtree(leftover)
        partial = self._folder / f".partial-{_PREFIX}{step:06d}"
        partial.mkdir()
        write(partial)
        for path in sorted(partial.rglob("*")):
            _flush(path)
        (partial / _MARKER).touch()
        _flush(partial / _MARKER)
        _flush(partial)
        final_path = self._folder / f"{_PREFIX}{step:06d}"
        if final_path.exists():
            shutil.rmtree(final_path)
        partial.rename(final_path)
        _flush(self._folder)
        for old in self._complete()[: -self._keep]:
            shutil.rmtree(old)
        return final_path

    def latest(self) -> Path | None:
        """Return the newest whole checkpoint, or None."""
        complete = self._complete()
        return complete[-1] if complete else None

    def _complete(self) -> list[Path]:
        return sorted(
            path for path in self._folder.glob(f"{_PREFIX}*") if (path / _MARKER).is_file()
        )


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
