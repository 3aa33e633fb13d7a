"""A run's folder: refused or claimed, with its config and its W&B run."""

import shutil
import uuid
from pathlib import Path

from earl_trainer.config import RunConfig
from earl_trainer.overrides import CONFIG_FILE, read_run_config, to_tree, write_run_config
from earl_trainer.rules import check_resumable
from earl_trainer.tracking.wandb_sink import WandbSink, choose_mode

_WANDB_ID = "wandb_id"


def check_folder(config: RunConfig, folder: Path, *, resume: bool) -> None:
    """Refuse a folder that holds another run, or one that cannot go on with this config.

    Raises:
        ValueError: With the rule and the folder or the values.
    """
    if resume:
        check_resumable(read_run_config(folder), config)
    elif (folder / CONFIG_FILE).exists():
        raise ValueError(f"{str(folder)!r} already holds a run; go on with --resume {folder}")


def claim_folder(config: RunConfig, folder: Path, *, resume: bool) -> tuple[WandbSink | None, str]:
    """Write the run's config into its folder and open W&B there; a new run refused leaves neither.

    Returns:
        The sink, if there is to be one, and in one line where it goes.
    """
    existed = folder.exists()
    write_run_config(config, folder)
    try:
        return _open_wandb(config, folder)
    except BaseException:
        if not resume:
            (folder / CONFIG_FILE).unlink()
        if not existed:
            shutil.rmtree(folder)
        raise


def _open_wandb(config: RunConfig, folder: Path) -> tuple[WandbSink | None, str]:
    """Open the W&B run if there is to be one; also say in one line where it goes."""
    mode, why = choose_mode(config.tracking.wandb)
    if mode == "disabled":
        return None, f"W&B: disabled ({why})"
    sink = WandbSink(
        folder,
        project=config.tracking.wandb_project,
        name=folder.name,
        run_id=_wandb_id(folder),
        mode=mode,
        config=to_tree(config),
    )
    where = f", in {folder / 'wandb'}" if mode == "offline" else ""
    return sink, f"W&B: {mode} ({why}){where}"


def _wandb_id(folder: Path) -> str:
    """Return the run's W&B id, kept in its folder so that a resumed run goes on under it."""
    path = folder / _WANDB_ID
    if not path.exists():
        path.write_text(uuid.uuid4().hex[:8])
    return path.read_text()
