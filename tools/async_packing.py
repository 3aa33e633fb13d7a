"""Micro-batches without padding against padded ones that may take as much memory.

    python tools/bench_async.py --only packing [--quick --out FILE]

Rows are episodes of Tic-Tac-Toe, played by a script, of one to four games or of a long-tailed
number of them. A padded micro-batch has a fixed number of rows, in the order of arrival or sorted
by length: the smallest number whose peak is not below that of the packed ones. What rows sorted by
length leave to be gained is bounded by their padding; a note says how much that is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import torch
from bench_section import Row, Section
from benchmarking import Figure
from earl_dispatch import Columns
from earl_envs import make_game, make_opponent
from earl_trainer.algorithms.logprobs import shifted_positions, token_logprobs
from earl_trainer.experience.packing import PACKINGS, Bins, pack_fewest_first
from earl_trainer.experience.samples import build_columns
from earl_trainer.learner.forward import score
from earl_trainer.models.attention import use_attention
from earl_trainer.models.tiny import build_model, build_tokenizer
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.rollout.starts import grouped_starts
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from transformers import PreTrainedModel

_GAME = "earl/TicTacToe-v0"
_MAX_CONTEXT_TOKENS = 2048
_MOST_GAMES = 16
_SEED = 0

Loss = Callable[[PreTrainedModel, Columns], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    num_episodes: int
    capacity_rows: int
    """A packed micro-batch has as many tokens as this many of the longest rows."""
    num_rounds: int


FULL = Size(num_episodes=256, capacity_rows=8, num_rounds=5)
QUICK = Size(num_episodes=32, capacity_rows=3, num_rounds=2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One way to compute all rows."""

    name: str
    bins: Bins
    loss: Loss


def draw_games(kind: str, num_episodes: int) -> list[int]:
    """Draw how many games each episode plays.

    Args:
        kind: `short` for 1 to 4 alike, `tail` for n with a probability in proportion to n^-2.
        num_episodes: Of all.
    """
    rng = np.random.default_rng(_SEED)
    if kind == "short":
        return rng.integers(1, 5, num_episodes).tolist()
    weights = 1.0 / np.arange(1, _MOST_GAMES + 1) ** 2
    games = rng.choice(np.arange(1, _MOST_GAMES + 1), num_episodes, p=weights / weights.sum())
    return games.tolist()


def make_tiny() -> PreTrainedModel:
    """Make the model of the recipe tictactoe-tiny."""
    model = build_model(
        build_tokenizer(make_game(_GAME), seed=_SEED),
        hidden_size=128,
        num_layers=4,
        num_heads=4,
        max_context_tokens=_MAX_CONTEXT_TOKENS,
        seed=_SEED,
    ).eval()
    use_attention(model)
    return model


def play(num_games: Sequence[int]) -> Columns:
    """Play one episode of each number of games; rows in that order."""
    game, random = make_game(_GAME), make_opponent("random")
    chat = ChatFormat(build_tokenizer(game, seed=_SEED))
    collector = Collector(
        game,
        game_id=_GAME,
        opponent=random,
        match_opponent=random,
        chat=chat,
        max_context_tokens=_MAX_CONTEXT_TOKENS,
        max_reply_tokens=4,
    )
    starts = grouped_starts(
        _SEED,
        step=0,
        num_episodes=len(num_games),
        group_size=1,
        num_seats=game.num_seats,
        num_games=num_games,
    )
    rollout = collector.collect(ScriptedPolicy(random, game=game, chat=chat), starts)
    return build_columns(rollout.episodes, [1.0] * len(num_games), RewardConfig())


def packed_loss(model: PreTrainedModel, part: Columns) -> Tensor:
    """Negative log-likelihood of all trained tokens, computed without padding."""
    token_ids, mask = part.per_token["token_ids"].long(), part.per_token["mask"]
    return -score(model, token_ids, mask, part.lengths, temperature=1.0)[0].sum()


def padded_loss(model: PreTrainedModel, part: Columns) -> Tensor:
    """The same of rows that are padded on the right, to the longest of them."""
    present = torch.arange(int(part.lengths.max())) < part.lengths[:, None]
    zeros = torch.zeros(present.shape, dtype=torch.int64)
    token_ids = zeros.masked_scatter(present, part.per_token["token_ids"].long())
    mask = zeros.bool().masked_scatter(present, part.per_token["mask"])
    positions = shifted_positions(mask)
    logits = model(input_ids=token_ids, use_cache=False, logits_to_keep=positions).logits
    logprobs, _ = token_logprobs(
        logits, positions_P=positions, token_ids_BT=token_ids, mask_BT=mask, temperature=1.0
    )
    return -logprobs.sum()


def chunk(order: Sequence[int], num_rows: int) -> Bins:
    """Cut rows into micro-batches of equally many; the last one may have fewer."""
    return [list(order[first : first + num_rows]) for first in range(0, len(order), num_rows)]


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the most memory that tensors took during a call, beyond what they did before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    assert profiled.profiler is not None
    results = profiled.profiler.kineto_results
    assert results is not None
    events: list[Any] = results.events()  # Any: its stub lacks what is read of it
    changes = [event for event in events if event.name() == "[memory]"]
    changes.sort(key=lambda event: event.start_ns())
    return max(accumulate((event.nbytes() for event in changes), initial=0))


def peak_of(model: PreTrainedModel, rows: Columns, scheme: Scheme) -> int:
    """Return the peak of the scheme's largest micro-batch, gradients included."""

    def computed_tokens(chosen: Sequence[int]) -> int:
        lengths = rows.lengths[list(chosen)]
        if scheme.loss is packed_loss:
            return int(lengths.sum())
        return len(lengths) * int(lengths.max())

    part = rows.select(max(scheme.bins, key=computed_tokens))
    model.zero_grad()

    def run() -> None:
        scheme.loss(model, part).backward()

    return peak_bytes(run)


def fit_padded(
    model: PreTrainedModel, rows: Columns, name: str, order: Sequence[int], least_bytes: int
) -> Scheme:
    """Give padded micro-batches the fewest rows with which they take at least this memory."""

    def make(num_rows: int) -> Scheme:
        return Scheme(name=name, bins=chunk(order, num_rows), loss=padded_loss)

    too_few, enough = 0, len(order)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if peak_of(model, rows, make(middle)) < least_bytes:
            too_few = middle
        else:
            enough = middle
    return make(enough)


def count_tokens(model: PreTrainedModel, run: Callable[[], object]) -> int:
    """Return how many tokens, padding or not, go through the model during a call."""
    counts: list[int] = []

    def note(_: object, inputs: tuple[Tensor, ...]) -> None:
        counts.append(inputs[0].numel())

    handle = model.get_input_embeddings().register_forward_pre_hook(note)
    try:
        run()
    finally:
        handle.remove()
    return sum(counts)


def pass_over(model: PreTrainedModel, rows: Columns, scheme: Scheme) -> float:
    """Compute the gradient of all rows, and return the processor seconds that it took."""
    parts = [rows.select(chosen) for chosen in scheme.bins]
    model.zero_grad()
    start_s = process_time()
    for part in parts:
        scheme.loss(model, part).backward()
    return process_time() - start_s


def make_schemes(model: PreTrainedModel, rows: Columns, *, capacity_tokens: int) -> list[Scheme]:
    """Plan packed micro-batches, and padded ones of as much memory."""
    lengths: list[int] = rows.lengths.tolist()
    by_length = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    packed = Scheme(
        name="packed",
        bins=pack_fewest_first(lengths, capacity_tokens=capacity_tokens),
        loss=packed_loss,
    )
    least_bytes = peak_of(model, rows, packed)
    return [
        packed,
        fit_padded(model, rows, "arrival", range(len(lengths)), least_bytes),
        fit_padded(model, rows, "sorted", by_length, least_bytes),
    ]


def compare(
    kind: str, rows: Columns, *, capacity_tokens: int, num_rounds: int
) -> tuple[dict[str, Figure], list[Row]]:
    """Measure packed and padded micro-batches in turn."""
    model = make_tiny()
    schemes = make_schemes(model, rows, capacity_tokens=capacity_tokens)
    peaks = {scheme.name: peak_of(model, rows, scheme) for scheme in schemes}
    computed = {
        scheme.name: count_tokens(model, partial(pass_over, model, rows, scheme))
        for scheme in schemes
    }
    times_s: dict[str, list[float]] = {scheme.name: [] for scheme in schemes}
    for _ in range(num_rounds):
        for scheme in schemes:
            times_s[scheme.name].append(pass_over(model, rows, scheme))
    measured: list[Row] = [
        {
            "rows": kind,
            "scheme": scheme.name,
            "microbatches": len(scheme.bins),
            "tokens": rows.num_tokens,
            "padding_tokens": computed[scheme.name] - rows.num_tokens,
            "peak_bytes": peaks[scheme.name],
            "tokens_per_s": rows.num_tokens / median(times_s[scheme.name]),
        }
        for scheme in schemes
    ]
    return _figures(kind, computed["packed"] - rows.num_tokens, peaks, times_s), measured


def _figures(
    kind: str,
    padding_tokens: int,
    peaks: Mapping[str, int],
    times_s: Mapping[str, Sequence[float]],
) -> dict[str, Figure]:
    def gain(name: str) -> float:
        rounds = zip(times_s[name], times_s["packed"], strict=True)
        return median(padded_s / packed_s for padded_s, packed_s in rounds)

    return {
        f"{kind}_over_arrival": Figure(value=gain("arrival"), unit="ratio", goal=">= 1.3"),
        f"{kind}_over_sorted": Figure(value=gain("sorted"), unit="ratio", goal=">= 1.3"),
        f"{kind}_peak_over_arrival": Figure(
            value=peaks["packed"] / peaks["arrival"], unit="ratio", goal="<= 1"
        ),
        f"{kind}_peak_over_sorted": Figure(
            value=peaks["packed"] / peaks["sorted"], unit="ratio", goal="<= 1"
        ),
        f"{kind}_padding_tokens": Figure(value=padding_tokens, unit="tokens", goal="== 0"),
    }


def explain_sorted(kind: str, measured: Sequence[Row]) -> Row:
    """Say what could be gained over rows that are sorted by length if padding were all they cost.

    Args:
        kind: Of the rows.
        measured: Of every scheme, from `compare`.
    """
    (row,) = (row for row in measured if row["scheme"] == "sorted")
    padding, real = int(str(row["padding_tokens"])), int(str(row["tokens"]))
    return {
        "note": f"Rows sorted by length ({kind}) are padded by {padding:,} tokens to {real:,}: "
        f"whoever computes none of them computes {1 + padding / real:.2f} times as fast."
    }


def compare_plans(kind: str, lengths: Sequence[int], *, capacity_tokens: int) -> list[Row]:
    """Count the bins of every planner, and by which share the fullest exceeds their mean."""
    plans: list[Row] = []
    for name, pack in PACKINGS.items():
        start_s = process_time()
        bins = pack(lengths, capacity_tokens=capacity_tokens)
        plan_s = process_time() - start_s
        loads = [sum(lengths[row] for row in chosen) for chosen in bins]
        plans.append({
            "rows": kind,
            "packing": name,
            "bins": len(bins),
            "fewest_possible_bins": -(-sum(lengths) // capacity_tokens),
            "imbalance": max(loads) * len(loads) / sum(loads) - 1.0,
            "most_rows": max(map(len, bins)),
            "fewest_rows": min(map(len, bins)),
            "plan_s": plan_s,
        })
    return plans


def measure(quick: bool) -> Section:
    """Measure on one core."""
    size = QUICK if quick else FULL
    figures: dict[str, Figure] = {}
    rows: list[Row] = []
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for kind in ("short", "tail"):
            played = play(draw_games(kind, size.num_episodes))
            lengths: list[int] = played.lengths.tolist()
            capacity_tokens = size.capacity_rows * max(lengths)
            own_figures, own_rows = compare(
                kind, played, capacity_tokens=capacity_tokens, num_rounds=size.num_rounds
            )
            figures.update(own_figures)
            rows += [*own_rows, explain_sorted(kind, own_rows)]
            rows += compare_plans(kind, lengths, capacity_tokens=capacity_tokens)
    finally:
        torch.set_num_threads(num_threads)
    return Section(figures=figures, rows=rows)
