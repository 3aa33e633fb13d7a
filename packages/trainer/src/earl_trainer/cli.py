"""The command `earl`."""

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from earl_envs import Failure, Game, attempt, game_ids, make_game, start_position, suggest

from earl_trainer.overrides import (
    Tree,
    describe_fields,
    parse_flags,
    read_run_config,
    read_yaml,
    resolve,
)
from earl_trainer.recipes import DEFAULT_RECIPE, RECIPES, find_recipe

_USAGE = """\
usage: earl train [RECIPE] [--field value ...] [--config run.yaml] [--run-dir DIR]
       earl train --resume DIR [--field value ...]
       earl games [ID]
"""

_GAMES_HINT = """\
earl games ID shows one of them. OpenSpiel's games are there as openspiel/NAME-v0
(pip install earl-envs[openspiel]); a game of your own is one class: docs/add_a_game.md
"""

Job = Callable[[], int]


def main() -> None:
    """Run the command line.

    What the user asked for wrongly is one line and exit status 2; nothing has been started by then.
    """
    try:
        job = read_command(sys.argv[1:])
    except ValueError as error:
        sys.stderr.write(f"earl: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("earl: interrupted before the run began\n")
        sys.exit(130)
    sys.exit(job())


def read_command(arguments: Sequence[str]) -> Job:
    """Turn a command line into the job it asks for, ready to be run.

    Raises:
        ValueError: If it names something that there is not, or values that do not fit.
    """
    if not arguments or arguments[0] in ("-h", "--help"):
        return partial(_print, _USAGE)
    verbs = {"train": _read_train, "games": _read_games}
    if arguments[0] not in verbs:
        raise ValueError(suggest(arguments[0], verbs, what="command"))
    return verbs[arguments[0]](arguments[1:])


def _read_games(arguments: Sequence[str]) -> Job:
    if len(arguments) > 1:
        raise ValueError(f"games takes one id at most, got {arguments[1]!r} as well")
    return partial(_print, _describe_game(arguments[0]) if arguments else _list_games())


def _list_games() -> str:
    rows: list[tuple[str, ...]] = [("game", "seats", "actions", "max moves", "solved value")]
    for game_id in game_ids():
        # One broken package must not hide the games of the others.
        game = attempt(make_game, game_id)
        rows.append((game_id, *_facts(game)) if isinstance(game, Game) else (game_id, game.error))
    widths = [max(len(row[column]) for row in rows if len(row) > 2) for column in range(5)]
    lines = [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=False))
        )
        for row in rows
    ]
    return "\n".join([*lines, "", _GAMES_HINT])


def _facts(game: Game) -> tuple[str, str, str, str]:
    value = game.solved_value
    solved = "-" if value is None else " ".join(f"{score:.4g}" for score in value)
    return str(game.num_seats), str(game.num_actions), str(game.max_moves), solved


def _describe_game(game_id: str) -> str:
    game = make_game(game_id)
    shown = attempt(_show_start, game)
    if isinstance(shown, Failure):
        raise ValueError(f"game {game_id!r} cannot be shown: {shown.error}")  # noqa: TRY004
    seats, actions, moves, solved = _facts(game)
    return (
        f"{game_id}: {seats} seat{'s'[: game.num_seats != 1]}, {actions} actions, "
        f"at most {moves} moves, solved value {solved}\n\n{shown}\n"
    )


def _show_start(game: Game) -> str:
    start = start_position(game, seed=0)
    return "\n\n".join(filter(None, (game.rules(), game.text(start.state, start.seat))))


def _read_train(arguments: Sequence[str]) -> Job:
    if any(argument in ("-h", "--help") for argument in arguments):
        return partial(_print, _train_help())
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


def _print(text: str) -> int:
    sys.stdout.write(text)
    return 0


def _train_help() -> str:
    fields = "".join(
        f"  --{name.replace('_', '-')} ({default})\n      {text}\n"
        for name, default, text in describe_fields()
    )
    return f"{_USAGE}\nrecipes: {', '.join(RECIPES)}\n\nfields of {DEFAULT_RECIPE}:\n{fields}"
