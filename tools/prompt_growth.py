"""Measure how prompts grow under each history policy, and keep the table of the documentation.

`python tools/prompt_growth.py` prints the table, `--write` puts it into docs/environments.md.
"""

import argparse
from pathlib import Path

from earl_envs.registry import make_game
from earl_envs.text.growth import Growth, measure_growth

GAMES = {"Tic-Tac-Toe": "earl/TicTacToe-v0", "Connect Four": "earl/ConnectFour-v0"}
NUM_GAMES = 32
REPLY_CHARS = 200
TURNS = (1, 2, 4, 8, 16)
GUIDE = Path(__file__).parents[1] / "docs" / "environments.md"
START, END = "<!-- prompt growth -->\n", "<!-- end of prompt growth -->\n"


def table() -> str:
    """Play the games and return the table as Markdown."""
    turns = " | ".join(f"turn {turn}" for turn in TURNS)
    lines = [
        f"| game | history | {turns} | all turns |",
        f"|---|---|{'---:|' * (len(TURNS) + 1)}",
    ]
    for name, game_id in GAMES.items():
        growths = measure_growth(make_game(game_id), num_games=NUM_GAMES, seed=0, reply=_reply)
        lines += [f"| {name} | `{growth.history}` | {_cells(growth)} |" for growth in growths]
    return "\n".join(lines) + "\n"


def _reply(move: str) -> str:
    words = "I look at the rows, the columns and the diagonals. "
    return (words * REPLY_CHARS)[: REPLY_CHARS - len(move)] + move


def _cells(growth: Growth) -> str:
    means = [growth.prompt_tokens[turn - 1 : turn] for turn in TURNS]
    cells = [f"{mean[0]:,.0f}" if mean else "" for mean in means]
    turns = zip(growth.num_games, growth.prompt_tokens, strict=True)
    total = sum(num_games * tokens for num_games, tokens in turns)
    return " | ".join([*cells, f"{total / growth.num_games[0]:,.0f}"])


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/environments.md")
    measured = table()
    if parser.parse_args().write:
        before, _, rest = GUIDE.read_text().partition(START)
        GUIDE.write_text(before + START + measured + END + rest.partition(END)[2])
    else:
        print(measured, end="")


if __name__ == "__main__":
    main()
