"""`earl train`: a run of a recipe, or its continuation."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from earl_trainer.cli.job import Job, printing, wants_help
from earl_trainer.cli.recipe_arguments import pop_text, resolve_recipe, split_recipe
from earl_trainer.overrides import (
    Tree,
    describe_fields,
    read_run_config,
    read_yaml,
    resolve,
)
from earl_trainer.recipes import DEFAULT_RECIPE, RECIPES

USAGE = (
    "earl train [RECIPE] [--field value ...] [--config run.yaml] [--run-dir DIR]",
    "earl train --resume DIR [--field value ...]",
)


def read_train(arguments: Sequence[str]) -> Job:
    """Read `earl train ...` and assemble the run.

    Raises:
        ValueError: If a recipe or field is unknown, or values do not fit one another.
    """
    if wants_help(arguments):
        return printing(_help())
    recipe, flags = split_recipe(arguments)
    resume_dir, run_dir = _pop_path(flags, "resume"), _pop_path(flags, "run_dir")
    config_path = _pop_path(flags, "config")
    if resume_dir is not None and (recipe is not None or run_dir is not None):
        raise ValueError("--resume goes on with the run in its folder: give no recipe or --run-dir")
    overrides = [flags] if config_path is None else [read_yaml(config_path), flags]
    if resume_dir is None:
        config = resolve_recipe(recipe, overrides)
        folder = run_dir or Path(f"runs/{config.recipe}-{time.strftime('%Y%m%d-%H%M%S')}")
    else:
        folder = resume_dir
        config = resolve(read_run_config(folder), *overrides)
    # torch and transformers take seconds to load: only once the arguments have been read.
    from earl_trainer.assemble import assemble_run
    from earl_trainer.launch import run_to_end
    from earl_trainer.models.load import quieten_library

    quieten_library()

    return partial(run_to_end, assemble_run(config, folder, resume=resume_dir is not None))


def _pop_path(flags: Tree, name: str) -> Path | None:
    value = pop_text(flags, name)
    return None if value is None else Path(value)


def _help() -> str:
    usage = "\n       ".join(USAGE)
    fields = "".join(
        f"  --{name.replace('_', '-')} ({default})\n      {text}\n"
        for name, default, text in describe_fields()
    )
    return (
        f"usage: {usage}\n\nrecipes: {', '.join(RECIPES)}\n\nfields of {DEFAULT_RECIPE}:\n{fields}"
    )
