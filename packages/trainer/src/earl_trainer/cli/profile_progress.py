"""How far a measurement is: a bar in a terminal, a line per point elsewhere."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

from earl_selector import ProfileTable
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from earl_trainer.cli.profile_table import describe_point, describe_switch


@contextmanager
def showing_progress(
    table: ProfileTable, console: Console | None = None
) -> Generator[Callable[[ProfileTable], None]]:
    """Yield what is to be called with the table each time it has grown.

    Args:
        table: As it is when the measurement begins.
        console: Where to show it; standard output by default.
    """
    console = console or Console()
    num_points, describe = len(list(table.grid)), _Changes(len(table.points)).describe
    if not console.is_terminal:
        lines = Console(file=console.file, width=240, soft_wrap=True, highlight=False)
        yield lambda table: lines.print(
            f"{len(table.points)}/{num_points} {describe(table)}", markup=False
        )
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=num_points, completed=len(table.points))
        yield lambda table: progress.update(
            task, completed=len(table.points), description=describe(table)
        )


@final
@dataclass(slots=True)
class _Changes:
    """Tells what a table has more than the last time."""

    num_points: int

    def describe(self, table: ProfileTable) -> str:
        grown, self.num_points = len(table.points) > self.num_points, len(table.points)
        return describe_point(table.points[-1]) if grown else describe_switch(table)
