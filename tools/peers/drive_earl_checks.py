"""This package's games and OpenSpiel's through the adapter, by the public conformance check."""

from collections.abc import Iterator

from driver import Options, answer, parse_options
from earl_envs.registry import GAMES
from earl_envs.testing import check_game
from earl_envs.testing.check import GameCheckError

OPENSPIEL_NAMES = (
    "tic_tac_toe", "connect_four", "breakthrough", "hex", "othello", "kuhn_poker", "leduc_poker",
    "goofspiel", "matrix_rps", "liars_dice", "pig", "backgammon",
)  # fmt: skip


def rows(options: Options) -> Iterator[dict[str, object]]:
    """Check every game, or as many of each kind as are asked for."""
    num_games = 2 * options.num_repeats
    openspiel = [f"openspiel/{name}-v0" for name in OPENSPIEL_NAMES]
    for game_id in (*[*GAMES][: options.num_checked], *openspiel[: options.num_checked]):
        findings = ""
        try:
            check_game(game_id, num_games=num_games)
        except GameCheckError as error:
            findings = str(error)
        yield {"game": game_id, "variant": "check_game", "passed": not findings, "why": findings}


if __name__ == "__main__":
    answer("earl", "earl-envs", rows(parse_options()))
