"""The profile that a run goes by: the one it has, one in a file, or one measured at its start."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from earl_selector import ProfiledThroughput, ProfileTable, ThroughputModel

from earl_trainer.config import SelectorConfig
from earl_trainer.profiling.grid import plan_grid
from earl_trainer.profiling.measure import measure_profile
from earl_trainer.profiling.setup import ProfileSetup
from earl_trainer.profiling.store import check_answers, open_table, profile_path, read_table

AUTO: Final = "auto"
NONE: Final = "none"
PROFILE_FILE: Final = "profile.json"
"""The table that a run goes by, in its folder."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenProfile:
    """What a selector is told of speed."""

    table: ProfileTable | None = None
    throughput: ThroughputModel | None = None
    """None where nothing was measured."""
    switch_s: float = 0.0
    note: str | None = None
    """Where the figures come from, in one line."""

    def keep(self, folder: Path) -> None:
        """Write the table into a run's folder, so that the run decides alike after a resume."""
        if self.table is not None:
            self.table.save(folder / PROFILE_FILE)


def find_or_measure(config: SelectorConfig, setup: ProfileSetup, *, folder: Path) -> ChosenProfile:
    """Find the profile of a run, or measure it.

    With `auto` a table is taken from the run's own folder, then from the user's cache; if neither
    holds one, it is measured within `profile_s` and cached. With one degree there is nothing to
    choose, and nothing is measured.

    Args:
        config: Says what to take.
        setup: Of the run's engine, which has its weights and is used if need be.
        folder: Of the run; it need not exist.

    Raises:
        ValueError: If `profile` names a file that is no profile for this run.
        RunFailedError: If the engine cannot change its degree.
    """
    if config.profile == NONE:
        return ChosenProfile()
    if config.profile != AUTO:
        return _read(Path(config.profile), setup)
    if len(setup.load.degrees) == 1:
        return ChosenProfile()
    for path in (folder / PROFILE_FILE, profile_path(setup.subject, setup.load)):
        with suppress(ValueError):
            return _read(path, setup)
    return _measure(config.profile_s, setup)


def _read(path: Path, setup: ProfileSetup) -> ChosenProfile:
    table = read_table(path, setup.subject)
    try:
        check_answers(table, setup.load)
        return _choose(table, setup, note=f"speed by degree: {path}")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _measure(budget_s: float, setup: ProfileSetup) -> ChosenProfile:
    path, grid = profile_path(setup.subject, setup.load), plan_grid(setup.load)
    begun = ProfileTable(subject=setup.subject, grid=grid)
    # A broken file is measured anew.
    with suppress(ValueError):
        begun = open_table(path, setup.subject, grid)

    where = ""

    def keep(table: ProfileTable) -> None:
        nonlocal where
        # A machine without a place for caches measures at every start.
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            table.save(path)
        except OSError as error:
            where = f"not cached ({error.strerror})"
        else:
            where = f"kept in {path}"

    start_s = setup.meter.clock()
    table = measure_profile(
        setup.meter, begun, num_engines=setup.load.num_engines, keep=keep, budget_s=budget_s
    )
    took_s = setup.meter.clock() - start_s
    note = f"speed by degree: measured at {len(table.points)} loads in {took_s:.1f} s, {where}"
    if table.switch_s is None:
        note += "; the engine refused a change of degree, which is taken to cost nothing"
    return _choose(table, setup, note=note)


def _choose(table: ProfileTable, setup: ProfileSetup, *, note: str) -> ChosenProfile:
    return ChosenProfile(
        table=table,
        throughput=ProfiledThroughput(table=table, prior=setup.prior),
        switch_s=table.switch_s or 0.0,
        note=note,
    )
