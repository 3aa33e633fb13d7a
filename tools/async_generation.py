"""The streaming engine against the library's `generate` on whole games, and what each idea brings.

    python tools/bench_async.py --only generation [--quick --out FILE]

Times are those that one core computes on whole games, the writing of the prompts included; what is
compared has its turn in every round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import process_time

import torch
from bench_section import Row, Section
from benchmarking import Figure
from earl_trainer.rollout.engine import Request
from generation_games import (
    Lengths,
    Play,
    Seat,
    World,
    compare_replies,
    make_world,
    play_in_waves,
    play_streaming,
    play_with_generate,
)

LONG_TAILED = Lengths(median_tokens=8.0, sigma=1.2, most_tokens=160)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    num_games: int
    num_rows: int
    """Replies at once where there are more requests than rows."""
    num_rounds: int


FULL = Size(num_games=128, num_rows=32, num_rounds=7)
QUICK = Size(num_games=16, num_rows=2, num_rounds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """What ways of playing the same took, in rounds in which each had its turn."""

    num_tokens: Mapping[str, int]
    """Emitted in a round."""
    seconds: Mapping[str, Sequence[float]]

    def tokens_per_s(self, name: str) -> float:
        """Return the median rate."""
        return self.num_tokens[name] / median(self.seconds[name])

    def gain(self, name: str, *, over: str) -> float:
        """Return the median over the rounds of how many times another's rate one has."""
        pairs = zip(self.seconds[over], self.seconds[name], strict=True)
        ratio = median(other_s / own_s for other_s, own_s in pairs)
        return ratio * self.num_tokens[name] / self.num_tokens[over]

    def rows(self, games: str) -> list[Row]:
        """Write down every way."""
        return [
            {
                "games": games,
                "way": name,
                "tokens": self.num_tokens[name],
                "tokens_per_s": self.tokens_per_s(name),
                "seconds": list(seconds),
            }
            for name, seconds in self.seconds.items()
        ]


def time_in_turn(ways: Mapping[str, Callable[[], int]], num_rounds: int) -> Times:
    """Time several ways in each of some rounds, after one that does not count.

    Args:
        ways: Each does its work and returns how many tokens it emitted, always as many.
        num_rounds: That count.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    num_tokens = {name: run() for name, run in ways.items()}
    for _ in range(num_rounds):
        for name, run in ways.items():
            start_s = process_time()
            run()
            seconds[name].append(process_time() - start_s)
    return Times(num_tokens=num_tokens, seconds=seconds)


def count_tokens(play: Play, seats: Callable[[], Sequence[Seat]]) -> int:
    """Play, and count the tokens of all replies."""
    playing = seats()
    play(playing)
    return sum(len(reply) for seat in playing for reply in seat.replies)


def measure_games(world: World, size: Size) -> tuple[dict[str, Figure], list[Row]]:
    """Compare the engine with `generate`, with the engine in waves, and with itself forgetful."""
    seats = partial(world.seats, size.num_games)
    plays: dict[str, Play] = {
        "generate": partial(play_with_generate, world),
        "waves": partial(play_in_waves, world),
        "streaming": lambda games: play_streaming(world.streaming(), games),
        "streaming, forgets between turns": lambda games: play_streaming(
            world.streaming(keep_conversations=False), games
        ),
    }
    played = {name: seats() for name in plays}
    for name, play in plays.items():
        play(played[name])
    same = {
        name: compare_replies(world.model, played["streaming"], games)
        for name, games in played.items()
    }
    times = time_in_turn(
        {name: partial(count_tokens, play, seats) for name, play in plays.items()}, size.num_rounds
    )
    figures = {
        "over_generate": Figure(
            value=times.gain("streaming", over="generate"), unit="ratio", goal=">= 2"
        ),
        "equal_or_tied_games": Figure(
            value=1.0 - same["generate"]["different"] / size.num_games, unit="share", goal="== 1"
        ),
        "tied_games": Figure(value=same["generate"]["tied"], unit="games", goal=""),
        "over_waves": Figure(value=times.gain("streaming", over="waves"), unit="ratio", goal=""),
        "streaming": Figure(value=times.tokens_per_s("streaming"), unit="tokens/s", goal=""),
        "generate": Figure(value=times.tokens_per_s("generate"), unit="tokens/s", goal=""),
        "turn_reuse_gain": Figure(
            value=times.gain("streaming", over="streaming, forgets between turns"),
            unit="ratio",
            goal="> 1",
        ),
    }
    rows: list[Row] = [{**row, **same[str(row["way"])]} for row in times.rows("boards")]
    return figures, rows


def measure_prefix(world: World, size: Size) -> tuple[dict[str, Figure], list[Row]]:
    """Play groups with the rules in front, their first prompts read once or by each game."""
    seats = partial(world.seats, size.num_games, rules=True)
    times = time_in_turn(
        {
            name: partial(
                count_tokens,
                lambda games, share=share: play_streaming(
                    world.streaming(share_prefixes=share), games
                ),
                seats,
            )
            for name, share in (("shared", True), ("each its own", False))
        },
        size.num_rounds,
    )
    first = [seat.ask() for seat in seats()]
    prompts = [len(request.prompt_ids) for request in first if request is not None]
    gain = times.gain("shared", over="each its own")
    rows: list[Row] = [
        {**row, "first_prompt_tokens": median(prompts)} for row in times.rows("rules")
    ]
    return {"group_prefix_gain": Figure(value=gain, unit="ratio", goal="> 1")}, rows


def measure_batching(world: World, size: Size) -> tuple[dict[str, Figure], list[Row]]:
    """Answer many more requests than there are rows, new ones joining at once or batch by batch."""
    num_requests = 8 * size.num_rows
    limits = LONG_TAILED.draw((num_requests,)).tolist()
    asked = [seat.ask() for seat in world.seats(num_requests)]
    requests = [
        Request(
            sequence_id=number,
            prompt_ids=request.prompt_ids,
            max_new_tokens=limits[number],
            temperature=0.0,
            seed=0,
        )
        for number, request in enumerate(asked)
        if request is not None
    ]
    longest = max(len(request.prompt_ids) for request in requests) + LONG_TAILED.most_tokens

    def answer(num_at_once: int) -> int:
        engine = world.streaming(
            stop_ids=frozenset[int](),
            capacity_tokens=size.num_rows * longest,
            max_context_tokens=longest,
        )
        batches = [
            requests[first : first + num_at_once] for first in range(0, len(requests), num_at_once)
        ]
        return sum(len(reply.ids) for batch in batches for reply in engine.generate(batch))

    times = time_in_turn(
        {
            "continuous": partial(answer, len(requests)),
            "batch by batch": partial(answer, size.num_rows),
        },
        size.num_rounds,
    )
    gain = times.gain("continuous", over="batch by batch")
    rows: list[Row] = [
        {**row, "requests": num_requests, "rows": size.num_rows} for row in times.rows("tail")
    ]
    return {"continuous_batching_gain": Figure(value=gain, unit="ratio", goal="> 1")}, rows


def measure(quick: bool) -> Section:
    """Measure on one core."""
    size, world = QUICK if quick else FULL, make_world()
    figures: dict[str, Figure] = {}
    rows: list[Row] = []
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for part in (measure_games, measure_prefix, measure_batching):
            own_figures, own_rows = part(world, size)
            figures.update(own_figures)
            rows += own_rows
    finally:
        torch.set_num_threads(num_threads)
    return Section(figures=figures, rows=rows)
