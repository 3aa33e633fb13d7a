"""Checkpoints that are either whole or not there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import final

_MARKER = "COMPLETE"
_PREFIX = "step-"
_PARTIAL = ".partial-"
_REPLACED = ".replaced"


@final
class CheckpointStore:
    """Numbered checkpoint folders of one run.

    A checkpoint is written under another name, flushed to disk, marked complete and only then
    renamed into place; older ones, and one of the same step, go after that. A process killed at any
    moment leaves the previous checkpoint or the new one whole, and what it had half written or half
    deleted is ignored and swept up by the next save.

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
        self._sweep()
        partial = self._folder / f"{_PARTIAL}{_PREFIX}{step:06d}"
        partial.mkdir()
        write(partial)
        for path in sorted(partial.rglob("*")):
            _flush(path)
        (partial / _MARKER).touch()
        _flush(partial / _MARKER)
        _flush(partial)
        final_path = self._folder / f"{_PREFIX}{step:06d}"
        if final_path.exists():
            # Under this name `latest` still finds it until the new one is in place.
            final_path.rename(final_path.with_suffix(_REPLACED))
        partial.rename(final_path)
        _flush(self._folder)
        self._sweep()
        for old in list(self.complete().values())[: -self._keep]:
            self._delete(old)
        return final_path

    def latest(self) -> Path | None:
        """Return the newest whole checkpoint, or None."""
        return next(reversed(self.complete().values()), None)

    def drop_after(self, step: int) -> None:
        """Delete the checkpoints of later steps, the newest first."""
        for saved, folder in reversed(self.complete().items()):
            if saved > step:
                self._delete(folder)

    def complete(self) -> dict[int, Path]:
        """Return the folder of every whole checkpoint by its step, oldest first.

        One that is being replaced is there until the new one is in place.
        """
        found = sorted(
            (int(path.stem.removeprefix(_PREFIX)), path.suffix != _REPLACED, path)
            for path in self._folder.glob(f"{_PREFIX}*")
            if (path / _MARKER).is_file()
        )
        return {step: path for step, _, path in found}

    def _sweep(self) -> None:
        """Delete what is half written or half deleted, and what has been replaced."""
        for leftover in self._folder.glob(f"{_PARTIAL}*"):
            shutil.rmtree(leftover)
        for replaced in self._folder.glob(f"{_PREFIX}*{_REPLACED}"):
            if replaced.with_suffix("").exists():
                self._delete(replaced)

    def _delete(self, checkpoint: Path) -> None:
        # Renamed first, so that no half-deleted folder still bears its mark and its name.
        doomed = checkpoint.rename(self._folder / f"{_PARTIAL}{checkpoint.name}")
        shutil.rmtree(doomed)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
