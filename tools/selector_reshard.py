"""Plans of re-sharding a large model: bytes beside the least possible, and how long planning takes.

The model is Qwen2.5-72B in 16 bits as `transformers` splits it, on 8 and on 64 ranks at every pair
of degrees 1, 2, 4, 8; then degrees without a common chain, which cannot be nested.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations

from bench_section import Section
from benchmarking import Figure
from earl_selector import (
    MODEL_SHAPES,
    ModelShape,
    ParallelLayout,
    ParameterSpec,
    plan_reshard,
)

NESTED = (1, 2, 4, 8)
UNCHAINED = (3, 4)
_BYTES = 2


def list_parameters(shape: ModelShape) -> list[ParameterSpec]:
    """List a Qwen2's parameters: heads and MLP split, norms whole."""

    def spec(name: str, dims: tuple[int, ...], sharded_dim: int | None) -> ParameterSpec:
        return ParameterSpec(name=name, shape=dims, element_bytes=_BYTES, sharded_dim=sharded_dim)

    hidden, width = shape.hidden_size, shape.intermediate_size
    query, key = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    vocabulary = (shape.vocab_size, hidden)
    parameters = [spec("embed", vocabulary, 0), spec("norm", (hidden,), None)]
    parameters.append(spec("head", vocabulary, 0))
    for layer in range(shape.num_layers):
        for name, out in (("q", query), ("k", key), ("v", key)):
            parameters.append(spec(f"{layer}.{name}", (out, hidden), 0))
            parameters.append(spec(f"{layer}.{name}.bias", (out,), 0))
        parameters += [
            spec(f"{layer}.o", (hidden, query), 1),
            spec(f"{layer}.gate", (width, hidden), 0),
            spec(f"{layer}.up", (width, hidden), 0),
            spec(f"{layer}.down", (hidden, width), 1),
            spec(f"{layer}.norm1", (hidden,), None),
            spec(f"{layer}.norm2", (hidden,), None),
        ]
    return parameters


def measure_plan(
    source: ParallelLayout, target: ParallelLayout, parameters: Sequence[ParameterSpec]
) -> dict[str, int | float]:
    """Plan one change of degree, and say what it moves."""
    start = time.perf_counter()
    plan = plan_reshard(source, target, parameters)
    plan_s = time.perf_counter() - start
    received = [plan.received_bytes(rank) for rank in range(target.num_ranks)]
    return {
        "num_ranks": target.num_ranks,
        "from_tp": source.tp,
        "to_tp": target.tp,
        "num_moves": len(plan.moves),
        "bytes_moved": plan.bytes_moved,
        "bytes_lower_bound": plan.bytes_lower_bound,
        "least_received_bytes": min(received),
        "most_received_bytes": max(received),
        "most_sent_bytes": max(plan.sent_bytes(rank) for rank in range(source.num_ranks)),
        "plan_s": plan_s,
    }


def make_figures(
    nested: Sequence[Mapping[str, int | float]],
    unchained: Sequence[Mapping[str, int | float]],
    *,
    sharded_bytes: int,
) -> dict[str, Figure]:
    """Judge plans between degrees of one chain, and between others, by their bounds."""
    every = [*nested, *unchained]
    upward = [row["bytes_moved"] for row in nested if row["from_tp"] < row["to_tp"]]
    downward = [
        abs(row[name] - (sharded_bytes // row["to_tp"] - sharded_bytes // row["from_tp"]))
        for row in nested
        if row["from_tp"] > row["to_tp"]
        for name in ("least_received_bytes", "most_received_bytes", "most_sent_bytes")
    ]
    moved = [sum(row[name] for row in every) for name in ("bytes_moved", "bytes_lower_bound")]
    largest = max(every, key=lambda row: row["num_moves"])
    return {
        "moved_over_lower_bound": Figure(value=moved[0] / moved[1], unit="ratio", goal="== 1"),
        "moved_upward": Figure(value=max(upward), unit="bytes", goal="== 0"),
        "rank_off_bound_downward": Figure(value=max(downward), unit="bytes", goal="== 0"),
        "plan_of_100k_moves": Figure(
            value=largest["plan_s"] / largest["num_moves"] * 100_000, unit="s", goal="<= 2"
        ),
    }


def measure(quick: bool) -> Section:
    """Plan every change of degree, of a few layers on 8 ranks alone if quick."""
    shape = MODEL_SHAPES["qwen2.5-72b"]
    parameters = list_parameters(replace(shape, num_layers=4) if quick else shape)
    nested = [
        measure_plan(
            ParallelLayout(num_ranks=num_ranks, tp=a, degrees=NESTED),
            ParallelLayout(num_ranks=num_ranks, tp=b, degrees=NESTED),
            parameters,
        )
        for num_ranks in ((8,) if quick else (8, 64))
        for a, b in permutations(NESTED, 2)
    ]
    # The model's heads do not split in three; a matrix of this width does.
    matrix = ParameterSpec(name="matrix", shape=(3072, 4096), element_bytes=_BYTES, sharded_dim=0)
    unchained = [
        measure_plan(
            ParallelLayout(num_ranks=12, tp=a, degrees=UNCHAINED),
            ParallelLayout(num_ranks=12, tp=b, degrees=UNCHAINED),
            [matrix],
        )
        for a, b in permutations(UNCHAINED, 2)
    ]
    sharded_bytes = sum(each.num_bytes for each in parameters if each.sharded_dim is not None)
    return Section(
        figures=make_figures(nested, unchained, sharded_bytes=sharded_bytes),
        rows=[*nested, *unchained],
    )
