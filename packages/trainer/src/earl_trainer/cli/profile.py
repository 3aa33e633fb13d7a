"""`earl profile`: how fast an engine generates at each degree, before a run depends on it."""

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from earl_selector import ProfileGrid, ProfileTable
from earl_selector.tp_plan import double_from

from earl_trainer.cli.job import Job, printing, wants_help
from earl_trainer.cli.profile_table import describe_table
from earl_trainer.cli.recipe_arguments import pop_text, resolve_recipe, split_recipe
from earl_trainer.config import RunConfig
from earl_trainer.overrides import read_yaml
from earl_trainer.recipes import RECIPES

if TYPE_CHECKING:
    from earl_trainer.profiling.setup import ProfileSetup

USAGE = (
    "earl profile [RECIPE] [--field value ...] [--responses N,N] [--context N,N] [--out FILE]",
)

_HELP = """\
Measures tokens per second and device of a run's engine: at each of selector.tp_degrees, for numbers
of responses and lengths of context up to what the run needs. earl train finds what is kept here.
Started again, it goes on with what is missing.

  --responses N,N   responses in flight; also a range of doublings such as 16:256
  --context N,N     tokens of each; k stands for 1024, so also 1k:8k
  --out FILE        where to keep it, for --selector.profile FILE; by default the user's cache
  --config FILE     fields from a file, as for earl train

"""
_UNITS = {"": 1, "k": 2**10, "m": 2**20}


def read_profile(arguments: Sequence[str]) -> Job:
    """Read `earl profile ...` and make the engine that it measures.

    Raises:
        ValueError: If a recipe, field or load is unknown or does not fit, or the file holds another
            profile.
    """
    if wants_help(arguments):
        return printing(f"usage: {USAGE[0]}\n\n{_HELP}recipes: {', '.join(RECIPES)}\n")
    recipe, flags = split_recipe(arguments)
    out, config_path = pop_text(flags, "out"), pop_text(flags, "config")
    axes = {
        "num_responses": _read_axis("responses", pop_text(flags, "responses")),
        "context_tokens": _read_axis("context", pop_text(flags, "context")),
    }
    overrides = [flags] if config_path is None else [read_yaml(Path(config_path)), flags]
    config = resolve_recipe(recipe, overrides)
    setup, num_positions = _make_setup(config)
    # torch and transformers take seconds to load: only once the arguments have been read.
    from earl_trainer.profiling.grid import MIN_CONTEXT_TOKENS, plan_grid
    from earl_trainer.profiling.store import open_table, profile_path

    given = {name: axis for name, axis in axes.items() if axis is not None}
    grid = replace(plan_grid(setup.load), **given)
    _check_contexts(grid, shortest_tokens=MIN_CONTEXT_TOKENS, longest_tokens=num_positions)
    path = profile_path(setup.subject, setup.load) if out is None else Path(out)
    table = open_table(path, setup.subject, grid)
    _create(table, path)
    return partial(_measure, setup, table, path, arguments)


def _make_setup(config: RunConfig) -> "tuple[ProfileSetup, int]":
    """Make what `earl train` would generate with; also return how far the model's positions go."""
    from earl_envs import make_game

    from earl_trainer.engines import make_engine, make_selector
    from earl_trainer.models.load import load_model, quieten_library
    from earl_trainer.profiling.setup import make_setup
    from earl_trainer.rollout.chat import ChatFormat
    from earl_trainer.rules import check_config, check_context
    from earl_trainer.seeding import derive_seed

    quieten_library()
    check_config(config)
    game = make_game(config.env)
    loaded = load_model(config.model, game, seed=derive_seed(config.seed, "model"))
    model, chat = loaded.model, ChatFormat(loaded.tokenizer)
    check_context(config, game, chat, model)
    selector = make_selector(config, model)
    engine = make_engine(config, model, chat, selector, tp=None, plays=True, note=_say)
    setup = make_setup(
        config, model=model, engine=engine, stop_ids=chat.stop_ids, selector=selector
    )
    return setup, model.config.max_position_embeddings


def _read_axis(name: str, text: str | None) -> tuple[int, ...] | None:
    """Read `64,128` or a range of doublings `64:256`."""
    if text is None:
        return None
    low, colon, high = text.partition(":")
    words = [low, high] if colon else text.split(",")
    found = [re.fullmatch(r"([1-9][0-9]*)([km]?)", word.strip().lower()) for word in words]
    counts = [int(parts[1]) * _UNITS[parts[2]] for parts in found if parts is not None]
    if len(counts) < len(words):
        raise ValueError(
            f"--{name} takes whole numbers >= 1 such as 64,128 or 64:256 or 1k, got {text!r}"
        )
    if not colon:
        return tuple(sorted(set(counts)))
    first, last = counts
    if first > last:
        raise ValueError(f"--{name} takes a range that rises, got {text!r}")
    return double_from(first, last)


def _check_contexts(grid: ProfileGrid, *, shortest_tokens: int, longest_tokens: int) -> None:
    for tokens in grid.context_tokens:
        if not shortest_tokens <= tokens <= longest_tokens:
            raise ValueError(
                f"--context must be at least {shortest_tokens} tokens and at most the model's "
                f"{longest_tokens} positions, got {tokens}"
            )


def _create(table: ProfileTable, path: Path) -> None:
    """Write the table as it is, so that a place that cannot be written to is refused at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        table.save(path)
    except OSError as error:
        raise ValueError(f"cannot write the profile {str(path)!r}: {error.strerror}") from error


def _measure(
    setup: "ProfileSetup", table: ProfileTable, path: Path, arguments: Sequence[str]
) -> int:
    # rich takes a tenth of a second to load, which `earl --help` need not wait for.
    from earl_trainer.cli.profile_progress import showing_progress
    from earl_trainer.profiling.measure import measure_profile
    from earl_trainer.types import RunFailedError

    engine = setup.meter.engine
    try:
        engine.load_weights(0)
        with showing_progress(table) as show:

            def keep(grown: ProfileTable) -> None:
                nonlocal table
                grown.save(path)
                table = grown
                show(grown)

            measure_profile(setup.meter, table, num_engines=setup.load.num_engines, keep=keep)
    except KeyboardInterrupt:
        _say(f"interrupted: {len(table.points)} of {len(list(table.grid))} points are in {path}")
        _say(f"go on with: {shlex.join(('earl', 'profile', *arguments))}")
        return 130
    except RunFailedError as error:
        _say(f"earl: {error}")
        return 1
    finally:
        engine.close()
    _say(f"\n{describe_table(table)}\nkept in {path}")
    return 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
