"""`earl train`: a run of a recipe, or its continuation."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from earl_trainer.cli.job import Job, printing, wants_help
from earl_trainer.overrides import (
    Tree,
    describe_fields,
    parse_flags,
    read_run_config,
    read_yaml,
    resolve,
)
from earl_trainer.recipes import DEFAULT_RECIPE, RECIPES, find_recipe

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
    recipe = arguments[0] if arguments and not arguments[0].startswith("--") else None
    flags = parse_flags(arguments if recipe is None else arguments[1:])
    resume_dir, run_dir = _pop_path(flags, "resume"), _pop_path(flags, "run_dir")
    config_path = _pop_path(flags, "config")
    if resume_dir is not None and (recipe is not None or run_dir is not None):
        raise ValueError("--resume goes on with the run in its folder: give no recipe or --run-dir")
    overrides = [flags] if config_path is None else [read_yaml(config_path), flags]
    if resume_dir is None:
        named = {str(tree["recipe"]) for tree in overrides if "recipe" in tree}
        named |= {recipe} if recipe else set()
        if len(named) > 1:
            raise ValueError(f"a run has one recipe, got {' and '.join(sorted(named))}")
        config = resolve(find_recipe(named.pop() if named else DEFAULT_RECIPE), *overrides)
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
    value = flags.pop(name, None)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"--{name.replace('_', '-')} takes a path and has no fields")
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
