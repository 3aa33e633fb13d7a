"""Running an assembled run to its end, to Ctrl-C, or to an error that its user can act on."""

from contextlib import suppress
from functools import partial
from pathlib import Path

from earl_trainer.assemble import assemble_again, assemble_worker
from earl_trainer.config import RunConfig
from earl_trainer.guards.rollbacks import RolledBackError
from earl_trainer.interrupts import interrupts_deferred
from earl_trainer.loop import train
from earl_trainer.models.load import quieten_library
from earl_trainer.run import SUMMARY_FILE, Run
from earl_trainer.types import RunFailedError
from earl_trainer.workers.processes import Meeting, working_together


def run_to_end(run: Run) -> int:
    """Train, write the results and return the exit status.

    Ctrl-C saves a checkpoint of the last whole step, says where, and counts as a clean end. A run
    that cannot go on says why in one line and returns 1.
    """
    note = run.tracker.display.note
    try:
        work = partial(_work, run.config, run.folder, run.resumed_from)
        with working_together(run.team, work, timeout_s=run.config.dispatch.timeout_s):
            while not _train(run):
                run = assemble_again(run)
        summary = run.finish()
    except KeyboardInterrupt:
        return _save_interrupted(run)
    except RunFailedError as error:
        note(f"earl: {error}")
        return 1
    else:
        gain = summary["gain"]["after_warmup"]
        points = (100 * gain[key] for key in ("win_rate", "low", "high"))
        method = run.config.preference.name
        cause = "reinforcement learning" if method == "none" else method
        note("due to {}: {:+.1f} points won [{:+.1f}, {:+.1f}]".format(cause, *points))
        note(f"results in {run.folder}: {SUMMARY_FILE}, run.png, model/")
        return 0
    finally:
        with suppress(KeyboardInterrupt), interrupts_deferred(lambda: None):
            try:
                run.engine.close()
            finally:
                run.tracker.close()


def _save_interrupted(run: Run) -> int:
    """Save what Ctrl-C has ended, say where, and return the exit status."""
    note, status = run.tracker.display.note, 1
    # Pressed once more it changes nothing: the run is ending already.
    with (
        suppress(KeyboardInterrupt),
        interrupts_deferred(lambda: note("Ctrl-C: the checkpoint is being written")),
    ):
        try:
            folder = run.save()
        except RunFailedError as error:
            note(f"earl: {error}")
        else:
            note(f"interrupted: {run.state.step} steps are saved in {folder}")
            note(f"go on with: earl train --resume {run.folder}")
            status = 0
    return status


def _work(
    config: RunConfig, folder: Path, checkpoint: Path | None, rank: int, meeting: Meeting
) -> None:
    """Be another worker of a run, from its first step in this process to its last."""
    quieten_library()
    run = assemble_worker(config, folder, checkpoint=checkpoint, rank=rank)
    meeting.join(run.team)
    while not _train(run):
        run = assemble_again(run)


def _train(run: Run) -> bool:
    """Train to the end, and return True; False if a guard sent the run back to a checkpoint."""
    run.begin()
    run.measure()
    try:
        train(run)
    except RolledBackError:
        return False
    return True
