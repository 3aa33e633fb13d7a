"""`earl games`: what there is to play."""

from collections.abc import Sequence

from earl_envs import Failure, Game, attempt, game_ids, make_game, start_position

from earl_trainer.cli.columns import align
from earl_trainer.cli.job import Job, printing, wants_help

USAGE = ("earl games [ID]",)

_HINT = """\
earl games ID shows one of them. OpenSpiel's games are there as openspiel/NAME-v0
(pip install earl-envs[openspiel]); a game of your own is one class: docs/add_a_game.md
"""


def read_games(arguments: Sequence[str]) -> Job:
    """Read `earl games [ID]`.

    Raises:
        ValueError: If there is no such game, or more than one word.
    """
    if wants_help(arguments):
        return printing(f"usage: {USAGE[0]}\n\nWithout ID, lists all games.\n{_HINT}")
    if len(arguments) > 1:
        raise ValueError(f"games takes one id at most, got {arguments[1]!r} as well")
    return printing(_describe_game(arguments[0]) if arguments else _list_games())


def _list_games() -> str:
    rows: list[tuple[str, ...]] = [("game", "seats", "actions", "max moves", "solved value")]
    for game_id in game_ids():
        # One broken package must not hide the games of the others.
        game = attempt(make_game, game_id)
        rows.append((game_id, *_facts(game)) if isinstance(game, Game) else (game_id, game.error))
    return f"{align(rows)}\n\n{_HINT}"


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
