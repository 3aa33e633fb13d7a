"""Write the tables of `docs/benchmarks.md` and of the README from the stored measurements."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarking import ROOT, STORE

Stored = Mapping[str, Any]
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"
_NAMES = {"tictactoe-tiny": "`tictactoe-tiny`", "tictactoe-smollm2": "`tictactoe-smollm2`"}


def percent(value: float) -> str:
    """Write a share with one decimal."""
    return f"{100 * value:.1f} %"


def interval(result: Stored) -> str:
    """Write a win rate with its 95 % interval."""
    low, high = 100 * result["win_rate_low"], 100 * result["win_rate_high"]
    return f"{percent(result['win_rate'])} [{low:.1f}, {high:.1f}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def recipe_table(rows: Sequence[Stored]) -> str:
    """Show what each measured run reached."""
    head = [
        "recipe", "seed", "untrained", "after warm-up", "after RL", "due to RL",
        "illegal replies (untrained, warm-up, RL)", "time", "memory",
    ]  # fmt: skip
    body: list[list[str]] = []
    for row in rows:
        evaluation, gain = row["evaluation"], row["gain"]["reinforcement"]
        stages = [evaluation[name] for name in ("initial", "before", "after")]
        body.append([
            _NAMES[row["recipe"]],
            str(row["seed"]),
            *map(interval, stages),
            f"{100 * gain['win_rate']:+.1f} [{100 * gain['low']:+.1f}, {100 * gain['high']:+.1f}]",
            ", ".join(percent(result["illegal_rate"]) for result in stages),
            f"{row['wall_s'] / 60:.1f} min",
            f"{row['peak_bytes'] / 2**30:.1f} GiB",
        ])
    return table(head, body)


def figure_table(figures: Mapping[str, Stored]) -> str:
    """Show every figure beside its goal."""
    body = [
        [name, f"{figure['value']:,.4g} {figure['unit']}".strip(), figure["goal"] or "(reported)",
         "yes" if figure["holds"] else "**no**"]
        for name, figure in figures.items()
    ]  # fmt: skip
    return table(["figure", "measured", "goal", "holds"], body)


def splice(path: Path, content: str) -> None:
    """Replace what stands between the markers of a page."""
    text = path.read_text()
    start, end = text.index(_BEGIN) + len(_BEGIN), text.index(_END)
    path.write_text(f"{text[:start]}\n{content}{text[end:]}")


def main() -> None:
    """Render both pages."""
    files = {path.stem: json.loads(path.read_text()) for path in sorted(STORE.glob("*.json"))}
    parts: list[str] = []
    for name, content in files.items():
        machine = content["environment"]
        parts.append(
            f"## {name}\n\n`tools/bench_{name}.py`, {machine['date']}, {machine['cores']} cores, "
            f"Python {machine['python']}, torch {machine['torch']}.\n\n"
            + figure_table(content["figures"])
        )
    recipes = recipe_table(files["recipes"]["rows"])
    splice(ROOT / "docs" / "benchmarks.md", "\n".join([recipes, *parts]))
    # One run of each recipe is enough for the front page: the first seed.
    first = [row for row in files["recipes"]["rows"] if row["seed"] == 0]
    shown = list({row["recipe"]: row for row in reversed(first)}.values())
    splice(ROOT / "README.md", recipe_table(shown[::-1]))


if __name__ == "__main__":
    main()
