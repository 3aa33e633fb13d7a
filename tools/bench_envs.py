"""Step the games beside every peer in one run, on one core, and time all that is built on them.

Each peer runs in an environment of its own that this script makes and throws away. `--quick`
measures fewer sizes for a shorter time and leaves the stored file alone.

The headline plays at random: `step(random_actions())` draws the next moves while it steps, in the
same compiled loop. `given_actions` is what is left where the caller brings the actions in an array
of its own; drawing them is timed there as well, as it is for the peers.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path

from benchmarking import STORE, Figure, report
from peers.runner import PEERS, Effort, Row, import_times, num_cores, run_driver, run_peer

SCALED_BATCHES = (16384, 65536)
STEPPED = "step(random_actions())"
"""Our variant that is compared with the peers."""
GIVEN = "actions given by the caller"
HALVED = "a random half stepped"
OTHELLO_PEERS = ("openspiel", "pgx", "envpool")
"""Peers that have Othello."""
REPLY_FORMS = ("plain", "plain, naming moves", "think", "think and answer")
MISSING = 1e9
"""Stands for a time or a count of faults that was not measured: it misses every goal."""
FULL = Effort(
    games=("tic_tac_toe", "connect_four", "othello"),
    batches=(1, 64, 1024, 16384),
    num_repeats=5,
    min_s=0.3,
    num_checked=100,
)
QUICK = Effort(
    games=("tic_tac_toe", "connect_four"),
    batches=(1, 1024),
    num_repeats=2,
    min_s=0.05,
    num_checked=2,
)


def measure(effort: Effort, folder: Path) -> list[Row]:
    """Run everything, this package and its peers in turn on the same core."""
    python = Path(sys.executable)
    rows = run_driver(python, "earl", effort.flags(), cores=1)
    rows += run_driver(python, "earl_given", effort.flags(), cores=1)
    for name in PEERS:
        rows += run_peer(name, folder, effort)
    # Without a second core that figure stays unmeasured and misses its goal.
    if num_cores() > 1:
        rows += run_driver(python, "earl_scaling", effort.flags(SCALED_BATCHES), cores=2)
    # The kernels were compiled and stored by now.
    rows += run_driver(python, "earl_start", [], cores=1)
    rows += run_driver(python, "earl_text", effort.flags(), cores=1)
    rows += run_driver(python, "earl_opponents", effort.flags(), cores=1)
    rows += run_driver(python, "earl_checks", effort.flags(), cores=min(2, num_cores()))
    return rows


def rate(rows: Iterable[Row], **wanted: object) -> float:
    """Return the largest rate of the rows that have these values, 0 if there is none."""
    found = (row for row in rows if all(row.get(key) == wanted[key] for key in wanted))
    return max((row.get("moves_per_s", 0.0) for row in found), default=0.0)


def best_peer(rows: Iterable[Row], game: str, batch: int, *, observed: bool = True) -> float:
    """Return the largest rate of any peer in a game.

    A peer may split a batch into smaller ones, so that all sizes up to `batch` count.

    Args:
        rows: What was measured.
        game: The game.
        batch: Games played at once.
        observed: Whether only rates count that include observation and mask, as ours do.
    """
    rivals = [
        row
        for row in rows
        if row["peer"] in PEERS and row["batch"] <= batch and (row["observed"] or not observed)
    ]
    return rate(rivals, game=game)


def lead(
    rows: Sequence[Row],
    game: str,
    from_batch: int,
    *,
    observed: bool = True,
    variant: str = STEPPED,
) -> float:
    """Return our smallest lead over the best peer from a batch size on; 0 if anything is missing.

    Every peer has to be there: a missing one might have been the best.
    """
    needed = OTHELLO_PEERS if game == "othello" else PEERS
    present = {row["peer"] for row in rows if row["game"] == game}
    if num_peers(rows) < len(PEERS) or not present.issuperset(needed):
        return 0.0
    sizes = sorted({row["batch"] for row in rows if row["variant"] == variant})
    ratios = [
        ratio(
            rate(rows, peer="earl", game=game, batch=size, variant=variant),
            best_peer(rows, game, size, observed=observed),
        )
        for size in sizes
        if size >= from_batch
    ]
    return min(ratios, default=0.0)


def num_peers(rows: Iterable[Row]) -> int:
    """Return how many peers played both Tic-Tac-Toe and Connect Four."""
    played = {(row["peer"], row["game"]) for row in rows}
    both = ("tic_tac_toe", "connect_four")
    return sum(all((peer, game) in played for game in both) for peer in PEERS)


def ratio(ours: float, theirs: float) -> float:
    """Return a quotient, 0 if either was not measured."""
    return ours / theirs if theirs else 0.0


def time_of(moves_per_s: float, *, per_s: float = 1.0) -> float:
    """Return the time of one move in units of which a second has `per_s`."""
    return per_s / moves_per_s if moves_per_s else MISSING


def stepping_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Judge the stepping beside the peers."""
    figures = {
        "peers_measured": Figure(value=num_peers(rows), unit="peers", goal=f"== {len(PEERS)}")
    }
    for game in ("tic_tac_toe", "connect_four"):
        figures |= {
            f"{game}_lead": Figure(value=lead(rows, game, 1), unit="x", goal="> 1"),
            f"{game}_lead_over_peers_without_observation": Figure(
                value=lead(rows, game, 1, observed=False), unit="x", goal=""
            ),
            f"{game}_lead_from_1024": Figure(value=lead(rows, game, 1024), unit="x", goal=">= 20"),
            f"{game}_given_actions_lead_from_1024": Figure(
                value=lead(rows, game, 1024, variant=GIVEN), unit="x", goal=""
            ),
        }
    stepped = {"peer": "earl", "variant": STEPPED, "cores": 1}
    ours = rate(rows, **stepped, game="connect_four", batch=1024)
    openspiel = [row for row in rows if row["peer"] == "openspiel" and row["batch"] <= 1024]
    figures |= {
        "connect_four_1024_over_openspiel": Figure(
            value=ratio(ours, rate(openspiel, game="connect_four")), unit="x", goal=">= 60"
        ),
        "connect_four_1024_over_openspiel_with_observation": Figure(
            value=ratio(ours, rate(openspiel, game="connect_four", observed=True)),
            unit="x",
            goal="",
        ),
        "othello_lead_from_64": Figure(value=lead(rows, "othello", 64), unit="x", goal=">= 20"),
        "connect_four_16384_half_stepped": Figure(
            value=rate(rows, game="connect_four", variant=HALVED) / 1e6, unit="moves/us", goal=""
        ),
    }
    for game, goal in (("connect_four", ">= 1.8"), ("tic_tac_toe", ">= 1.6"), ("arithmetic", "")):
        scaled = [row["scaling"] for row in rows if row["game"] == game and "scaling" in row]
        figures[f"{game}_two_cores"] = Figure(value=min(scaled, default=0.0), unit="x", goal=goal)
    return figures


def text_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Judge the text path by the slowest game and form of reply."""

    def turns_per_s(num_chars: int) -> float:
        cases = product(("tic_tac_toe", "connect_four"), REPLY_FORMS)
        return min(
            rate(
                rows,
                peer="earl",
                game=game,
                variant=f"text, {form}, replies of {num_chars} characters",
            )
            for game, form in cases
        )

    short, medium, long = map(turns_per_s, (200, 2_000, 16_000))
    textarena = rate(rows, peer="textarena", variant="default wrappers")
    return {
        "text_turn_200_chars": Figure(value=time_of(short, per_s=1e6), unit="us", goal="< 2"),
        "text_turn_2000_chars": Figure(value=time_of(medium, per_s=1e6), unit="us", goal="< 4"),
        "text_lead_over_textarena": Figure(value=ratio(short, textarena), unit="x", goal=">= 10"),
        # Eight times the characters; a quadratic reader would take 64 times as long.
        "text_turn_16000_over_2000_chars": Figure(
            value=time_of(ratio(long, medium)), unit="x", goal="<= 10"
        ),
    }


def opponent_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Judge search and perfect play in Connect Four."""
    search = [row for row in rows if row["game"] == "connect_four_search"]
    ours = [row for row in search if row["peer"] == "earl"]
    books = [row for row in ours if row["variant"] == "book"]
    num_positions, missing, resolved, wrong = (
        sum(row[key] for row in books)
        for key in ("num_positions", "num_missing", "num_resolved", "num_wrong")
    )
    solving, negamax = (rate(ours, variant=v) for v in ("perfect, 10 stones", "negamax:6"))
    return {
        "perfect_move_at_10_stones": Figure(value=time_of(solving), unit="s", goal="< 1"),
        "book_positions_reached": Figure(value=num_positions, unit="positions", goal=">= 1100"),
        "book_positions_at_most": Figure(
            value=num_positions or MISSING, unit="positions", goal="<= 9900"
        ),
        "book_positions_solved_again": Figure(value=resolved, unit="positions", goal="> 0"),
        "book_positions_wrong": Figure(
            value=wrong if resolved else MISSING, unit="positions", goal="== 0"
        ),
        "book_positions_missing": Figure(
            value=missing if books else MISSING, unit="positions", goal="== 0"
        ),
        "negamax_6_move": Figure(value=time_of(negamax, per_s=1e3), unit="ms", goal="< 0.1"),
        "mcts_1000_over_openspiel": Figure(
            value=ratio(rate(ours, variant="mcts:1000"), rate(search, peer="openspiel")),
            unit="x",
            goal=">= 5",
        ),
    }


def start_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Judge what the package costs before and beside the kernels."""
    started = [row for row in rows if row["variant"] == "start"]
    first_step_s, step_bytes = (
        max((row[key] for row in started), default=MISSING)
        for key in ("first_step_s", "step_bytes")
    )
    return {
        # Compiling the kernels of Connect Four takes several times as long.
        "first_step_with_stored_kernels": Figure(value=first_step_s, unit="s", goal="< 3"),
        # A fresh array of observations would be 86,016 bytes, one of actions 8,192.
        "memory_taken_by_a_step_of_1024": Figure(value=step_bytes, unit="bytes", goal="< 8192"),
    }


def check_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Count the games that pass the conformance check."""
    checked = [row for row in rows if row["variant"] == "check_game"]
    listed = [row for row in checked if not row["game"].startswith("openspiel/")]
    adapted = [row for row in checked if row["game"].startswith("openspiel/")]
    passing = sum(row["passed"] for row in listed)
    return {
        "listed_games_passing_check": Figure(value=passing, unit="games", goal=">= 13"),
        "listed_games_failing_check": Figure(
            value=len(listed) - passing if listed else MISSING, unit="games", goal="== 0"
        ),
        "openspiel_games_passing_check": Figure(
            value=sum(row["passed"] for row in adapted), unit="games", goal=">= 10"
        ),
        # Those about which no check had to say that it could not decide.
        "openspiel_games_decided": Figure(
            value=sum(row["passed"] and not row["notes"] for row in adapted),
            unit="games",
            goal=">= 10",
        ),
    }


def main() -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, shorter; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    arguments = parser.parse_args()
    if arguments.quick and arguments.out is None:
        parser.error("--quick needs --out, since the stored file is of a full run")
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(QUICK if arguments.quick else FULL, Path(folder))
    figures = {
        **stepping_figures(rows),
        **text_figures(rows),
        **opponent_figures(rows),
        **start_figures(rows),
        **check_figures(rows),
        "import": Figure(value=statistics.median(import_times(7)), unit="s", goal="< 0.3"),
    }
    report(figures, rows, target=arguments.out or STORE / "envs.json")


if __name__ == "__main__":
    main()
