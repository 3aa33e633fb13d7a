"""Write the tables of `docs/benchmarks.md` and of the README from the stored measurements."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from algorithms_pool import Rate, pool
from benchmarking import ROOT, STORE
from earl_trainer.cli.comparison_plot import draw_comparisons
from earl_trainer.cli.comparisons import notes, replays
from earl_trainer.cli.plan_dispatch import LATENCY_US

Stored = Mapping[str, Any]
SIMULATED = STORE / "simulated.png"
_BEGIN, _END = "<!-- measured: begin -->", "<!-- measured: end -->"


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
        "recipe", "seed", "untrained", "after warm-up", "at the end", "gained since warm-up",
        "illegal replies (untrained, warm-up, end)", "time", "memory",
    ]  # fmt: skip
    body: list[list[str]] = []
    for row in rows:
        evaluation, gain = row["evaluation"], row["gain"]["after_warmup"]
        stages = [evaluation[name] for name in ("initial", "before", "after")]
        body.append([
            f"`{row['recipe']}`",
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


def link_table(rows: Sequence[Stored]) -> str:
    """Show what the interfaces counted beside what the plan sends: the busiest link and the rest.

    Of the longest rows on every number of hosts; "rest" is the link farthest off among the others.
    """
    longest = max(row["tokens_per_row"] for row in rows)
    body: list[list[str]] = []
    for row in rows:
        if row["tokens_per_row"] != longest:
            continue
        links = [
            (f"{number} {way}", planned, counted)
            for number, (plan, count) in enumerate(
                zip(
                    row["planned_sent_and_received_bytes"],
                    row["counted_sent_and_received_bytes"],
                    strict=True,
                )
            )
            for way, planned, counted in zip(("out", "in"), plan, count, strict=True)
        ]
        busiest = max(links, key=lambda link: link[1])
        rest = max(
            (link for link in links if link is not busiest),
            key=lambda link: abs(link[2] - link[1]) / link[1],
        )
        for name, (link, planned, counted) in (("busiest", busiest), ("rest", rest)):
            off = percent((counted - planned) / planned)
            cells = (f"{name}: host {link}", f"{planned:,}", f"{counted:,}", off)
            body.append([str(row["hosts"]), row["transport"], *cells])
    return table(["hosts", "transport", "link", "planned bytes", "counted bytes", "off"], body)


def selector_details(rows: Sequence[Stored]) -> str:
    """Show figure 3 of the EARL paper beside the memory rule, training memory, and the notes."""
    parts = {
        "TP 8 over TP 4 as the paper measured it, and the degree that the memory rule names": (
            cell_table([row for row in rows if "measured_percent" in row])
        ),
        "Activations of a training batch of Llama-3.1-70B": table(
            ["assumption", "GiB at 4,096", "GiB at 8,192", "ratio"],
            [
                [
                    str(row[name])
                    for name in ("training_batch", "gib_at_4096", "gib_at_8192", "ratio")
                ]
                for row in rows
                if "training_batch" in row
            ],
        ),
    }
    tables = [f"\n{title}:\n\n{body}" for title, body in parts.items()]
    return "".join(tables) + "\n" + "".join(f"- {row['note']}\n" for row in rows if "note" in row)


def cell_table(cells: Sequence[Stored]) -> str:
    """Show contexts down and responses across; bold where TP 4 cannot hold the load."""
    responses = sorted({cell["responses"] for cell in cells})
    body: list[list[str]] = []
    for context in sorted({cell["context_tokens"] for cell in cells}, reverse=True):
        row = {cell["responses"]: cell for cell in cells if cell["context_tokens"] == context}
        body.append([f"{context:,}", *(_cell_text(row[number]) for number in responses)])
    return table(["context \\ responses", *map(str, responses)], body)


def _cell_text(cell: Stored) -> str:
    measured = cell["measured_percent"]
    text = "out of memory" if measured is None else f"{measured:+.1f} %"
    text = f"{text}, TP {cell['memory_rule_tp']}"
    return f"**{text}**" if cell["share_of_tp4_capacity"] > 1 else text


def async_details(rows: Sequence[Stored]) -> str:
    """Show every bound of staleness, and AReaL's published rates beside simulated ones."""
    parts = {
        "Trained tokens per second and games won, by how many updates generation may be ahead": (
            staleness_table([row for row in rows if "win_rates_of_steps" in row])
        ),
        "AReaL's rates (arXiv:2505.24298, tables 2 and 7) and those of the simulated pipeline": (
            replay_table([row for row in rows if "simulated_tokens_per_s" in row])
        ),
    }
    tables = [f"\n{title}:\n\n{body}" for title, body in parts.items()]
    return "".join(tables) + "\n" + "".join(f"- {row['note']}\n" for row in rows if "note" in row)


def staleness_table(runs: Sequence[Stored]) -> str:
    """Show the median run of every variant by rate, and what each of its runs won."""
    body: list[list[str]] = []
    for variant in dict.fromkeys(run["variant"] for run in runs):
        own = [run for run in runs if run["variant"] == variant]
        body.append([
            variant,
            f"{median(run['tokens_per_s'] for run in own):,.0f}",
            percent(median(run["generation_idle_share"] for run in own)),
            f"{median(run['staleness_mean'] for run in own):.2f}",
            f"{max(run['staleness_max'] for run in own):.0f}",
            ", ".join(map(interval, own)),
        ])
    head = ["run", "tokens/s", "generation idle", "mean age", "largest age", "games won"]
    return table(head, body)


def replay_table(replays: Sequence[Stored]) -> str:
    """Show published and simulated rates."""
    body = [
        [
            row["table"],
            row["eta"],
            f"{row['published_tokens_per_s']:,.0f}",
            f"{row['simulated_tokens_per_s']:,.0f}{' (fitted)' if row['fitted'] else ''}",
            f"{row['error_percent']:+.1f} %",
        ]
        for row in replays
    ]
    return table(["table", "eta", "published tokens/s", "simulated", "off"], body)


def algorithm_details(rows: Sequence[Stored]) -> str:
    """Show every algorithm, its seeds pooled, the best one first; then the long runs."""
    body = [
        [
            f"`{each.algorithm}`",
            str(each.num_seeds),
            rate_text(each.before),
            rate_text(each.after),
            percent(each.illegal_rate),
            f"{each.wall_s:.0f} s",
            f"{each.peak_bytes / 2**30:.1f} GiB",
        ]
        for each in sorted(
            pool([row for row in rows if "long" not in row]), key=lambda each: -each.after.rate
        )
    ]
    head = ["algorithm", "seeds", "after warm-up", "at the end", "illegal", "time", "memory"]
    long = [
        f"- {row['long']}: {percent(row['first']['draws'] / row['first']['games'])} of the games "
        f"from the first seat and {percent(row['second']['draws'] / row['second']['games'])} from "
        f"the second drawn against the solver after {row['wall_s'] / 60:.0f} minutes "
        f"(`{' '.join(row['flags'])}`)\n"
        for row in rows
        if "long" in row
    ]
    return f"\n{table(head, body)}\n{''.join(long)}"


def rate_text(rate: Rate) -> str:
    """Write a pooled win rate with its 95 % interval."""
    return f"{percent(rate.rate)} [{100 * rate.low:.1f}, {100 * rate.high:.1f}]"


def loss_details(rows: Sequence[Stored]) -> str:
    """Show the loss in chunks beside that of all logits."""
    body = [
        [
            row["dtype"],
            row["variant"],
            f"{row['bytes'] / 2**20:,.0f} MiB",
            f"{row['seconds']:.1f} s",
        ]
        for row in rows
    ]
    return f"\n{table(['precision', 'logits', 'peak', 'time'], body)}"


def readme_content(files: Mapping[str, Stored]) -> str:
    """Show the latest run of every seed of each recipe."""
    shown = {(row["recipe"], row["seed"]): row for row in files["recipes"]["rows"]}
    return recipe_table(list(shown.values()))


def picture(path: Path) -> str:
    """Show a picture of the store, if it is there."""
    return f"\n![{path.stem}]({STORE.name}/{path.name})\n" if path.is_file() else ""


def simulated_content() -> str:
    """Show what the EARL paper reports of its dispatcher beside simulated transfers."""
    comparisons = replays(gbps=None, latency_us=LATENCY_US)
    tables = [
        f"{comparison.title}:\n\n{table(head, body)}"
        for comparison in comparisons
        for head, *body in [comparison.rows()]
    ]
    text = notes(comparisons, latency_us=LATENCY_US)
    return "\n".join(["## simulated transfers\n\n`earl plan dispatch`\n", *tables, text])


def script(name: str) -> str:
    """Return which script measured a stored file."""
    path = ROOT / "tools" / f"bench_{name}.py"
    return f"tools/{path.name if path.is_file() else f'{name}.py'}"


def benchmarks_content(files: Mapping[str, Stored]) -> str:
    """Show every run of the recipes, the figures of every stored file, and what is simulated."""
    parts = [recipe_table(files["recipes"]["rows"])]
    for name, content in files.items():
        machine = content["environment"]
        parts.append(
            f"## {name}\n\n`{script(name)}`, {machine['date']}, {machine['cores']} cores, "
            f"Python {machine['python']}, torch {machine['torch']}.\n\n"
            + figure_table(content["figures"])
            + DETAILS.get(name, lambda rows: "")(content["rows"])
            + picture(STORE / f"{name}.png")
        )
    parts.append(simulated_content() + picture(SIMULATED))
    return "\n".join(parts)


DETAILS: Mapping[str, Callable[[Sequence[Stored]], str]] = {
    "algorithms": algorithm_details,
    "async": async_details,
    "dispatch": lambda rows: f"\n{link_table(rows)}",
    "loss": loss_details,
    "selector": selector_details,
}
"""What is shown of a stored file besides its figures."""

PAGES: Mapping[Path, Callable[[Mapping[str, Stored]], str]] = {
    ROOT / "README.md": readme_content,
    ROOT / "docs" / "benchmarks.md": benchmarks_content,
}


def splice(page: str, content: str) -> str:
    """Return the page with `content` in place of what stands between its markers."""
    start, end = page.index(_BEGIN) + len(_BEGIN), page.index(_END)
    return f"{page[:start]}\n{content}{page[end:]}"


def read_stored() -> dict[str, Stored]:
    """Read every stored measurement, by the name of its script."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(STORE.glob("*.json"))}


def main() -> None:
    """Render both pages and the picture of what is simulated."""
    files = read_stored()
    draw_comparisons(replays(gbps=None, latency_us=LATENCY_US), SIMULATED)
    for path, content in PAGES.items():
        path.write_text(splice(path.read_text(), content(files)))


if __name__ == "__main__":
    main()
