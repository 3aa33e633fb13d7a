"""Going back to a good checkpoint, and going on from there otherwise than before."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """One return to a checkpoint."""

    from_step: int
    """The step that the run would have made next."""
    to_step: int
    """The step that it makes instead."""
    guard: str
    """The guard that asked for it."""
    reason: str
    """What it had found."""


class RolledBackError(Exception):
    """The run is to be made anew from its latest checkpoint; nobody's error."""


@final
class RollbackLog:
    """The rollbacks of a run, in a file that no rollback and no resume takes back.

    Args:
        path: The file, which need not be there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> list[Rollback]:
        """Return all of them, oldest first."""
        if not self._path.is_file():
            return []
        return [Rollback(**json.loads(line)) for line in self._path.read_text().splitlines()]

    def append(self, rollback: Rollback) -> None:
        """Add one; a process killed meanwhile leaves the file as it was."""
        lines = [json.dumps(asdict(each)) + "\n" for each in (*self.read(), rollback)]
        partial = self._path.with_suffix(".partial")
        partial.write_text("".join(lines))
        partial.replace(self._path)
