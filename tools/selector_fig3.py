"""The memory model beside what EARL reports: figure 3, and the memory of a training batch."""

from collections.abc import Sequence
from statistics import fmean

from bench_section import Row, Section
from benchmarking import Figure
from earl_selector.activations import Recompute, gpt_layer_activation_bytes
from earl_selector.fig3 import (
    LARGE_TP,
    SMALL_TP,
    Fig3Cell,
    best_context_rule,
    capacity_rule,
    count_right,
    list_beyond,
    read_cells,
)
from earl_selector.memory import MemoryModel
from earl_selector.roofline import RooflineThroughput
from earl_selector.specs import DEVICE_SPECS, MODEL_SHAPES
from earl_selector.training import TrainingMemory

_GIB = 2**30
# What engines are commonly given of a device, and 2 to 4 GB for activations, context, graphs and
# communication buffers. Nothing is fitted: every pair must do.
UTILISATIONS = (0.80, 0.85, 0.90, 0.95)
RESERVES_BYTES = (2 * 10**9, 3 * 10**9, 4 * 10**9)
TRAINING_CONTEXTS = (4096, 8192)
# GB that EARL's introduction gives for one training batch of Llama-3.1-70B.
REPORTED_GB = (97, 354)


def make_memory(utilisation: float = 0.9, reserve_bytes: int = 3 * 10**9) -> MemoryModel:
    """Return the memory model of the paper's testbed: Qwen2.5-72B in 16 bits on H100."""
    return MemoryModel(
        shape=MODEL_SHAPES["qwen2.5-72b"],
        device=DEVICE_SPECS["h100-80gb"],
        bytes_per_parameter=2,
        bytes_per_kv_value=2,
        utilisation=utilisation,
        reserve_bytes=reserve_bytes,
    )


def predict_percent(cell: Fig3Cell, throughput: RooflineThroughput) -> float:
    """Predict the speed-up of TP 8 over TP 4 in per cent."""
    small, large = (
        throughput.tokens_per_s_per_device(tp, cell.num_responses, cell.context_tokens)
        for tp in (SMALL_TP, LARGE_TP)
    )
    return 100 * (large / small - 1)


def mean_error(cells: Sequence[Fig3Cell], throughput: RooflineThroughput) -> float:
    """Return by how many points of per cent the predictions miss the measured cells on average."""
    return fmean(
        abs(predict_percent(cell, throughput) - cell.speedup_percent)
        for cell in cells
        if cell.speedup_percent is not None
    )


def cell_rows(cells: Sequence[Fig3Cell], memory: MemoryModel) -> list[Row]:
    """Show each cell: what was measured, what each rule says, and how full each degree is."""
    small_tokens, large_tokens = (memory.capacity_tokens(tp) for tp in (SMALL_TP, LARGE_TP))
    context_tokens, _ = best_context_rule(cells)
    throughput = RooflineThroughput(memory=memory)
    return [
        {
            "responses": cell.num_responses,
            "context_tokens": cell.context_tokens,
            "resident_tokens": cell.resident_tokens,
            "measured_percent": cell.speedup_percent,
            "memory_rule_tp": LARGE_TP if capacity_rule(small_tokens)(cell) else SMALL_TP,
            "context_rule_tp": LARGE_TP if cell.context_tokens >= context_tokens else SMALL_TP,
            "roofline_percent": round(predict_percent(cell, throughput), 1),
            "share_of_tp4_capacity": round(cell.resident_tokens / small_tokens, 2),
            "share_of_tp8_capacity": round(cell.resident_tokens / large_tokens, 2),
        }
        for cell in cells
    ]


def explain_failure(cells: Sequence[Fig3Cell], memory: MemoryModel) -> list[str]:
    """Say what can and what cannot explain that only one cell ran out of memory.

    Nothing is fitted to that cell: it takes part in no rule.
    """
    (failed,) = (cell for cell in cells if cell.speedup_percent is None)
    ran = max(cell.resident_tokens for cell in cells if cell is not failed)
    capacity, larger = (memory.capacity_tokens(tp) for tp in (SMALL_TP, LARGE_TP))
    num_beyond = len(list_beyond(cells, capacity)) - 1
    token_bytes = memory.kv_bytes_per_token(1)
    waiting = [(tokens - capacity) * token_bytes / 1e12 for tokens in (ran, failed.resident_tokens)]
    return [
        f"Cannot: the KV cache alone. {num_beyond} other cells exceed what TP 4 holds, by up to "
        f"{ran / capacity:.1f} times, and ran: there the engine queues or preempts. TP 8 ran "
        f"{failed.num_responses} x {failed.context_tokens} at "
        f"{failed.resident_tokens / larger:.1f} times its own capacity, if it did run.",
        "Cannot: weights, and activations of the engine. They are the same in the row and the "
        "column of this cell, since an engine reads prompts in chunks of bounded size.",
        f"Can: whatever grows with all resident tokens and has a limit between "
        f"{ran / capacity:.1f} and {failed.resident_tokens / capacity:.1f} times the capacity, "
        f"such as the cache of waiting responses swapped to the host ({waiting[0]:.2f} TB in the "
        f"fullest cells that ran, {waiting[1]:.2f} TB in this one). The paper does not say where "
        "memory ran out, so the model does not either.",
    ]


def training_rows() -> list[Row]:
    """Show Llama-3.1-70B's activations at both contexts under several assumptions.

    The first line gives the paper's two figures to the digit, if its GB are GiB: the estimate of
    Korthikanti et al. 2022 (equation 2 at t = 1), made for GPT with unfused attention, for one
    sequence and a fifth of the layers. What the fifth is, the paper does not say: 16 layers of a
    pipeline of five, or any other sequences / ranks = 1/5; no power of two gives it. The ratio of
    the two figures holds whatever is divided, and needs the term quadratic in context.
    """
    shape = MODEL_SHAPES["llama-3.1-70b"]
    gpt = [
        shape.num_layers
        * gpt_layer_activation_bytes(
            hidden_size=shape.hidden_size,
            num_heads=shape.num_heads,
            num_sequences=1,
            context_tokens=context,
        )
        / _GIB
        for context in TRAINING_CONTEXTS
    ]
    rows: list[Row] = [
        _training_row("GPT formula, one sequence, a fifth of the layers", [n / 5 for n in gpt]),
        _training_row("GPT formula, one sequence, all layers, one rank", gpt),
        _training_row("GPT formula, one sequence, all layers, 8 ranks", [n / 8 for n in gpt]),
    ]
    for words, fused, recompute in (
        ("Llama's own layers, eager attention, TP 8", False, Recompute.NONE),
        ("Llama's own layers, fused attention, TP 8", True, Recompute.NONE),
        ("the same, layers recomputed", True, Recompute.LAYERS),
    ):
        memory = TrainingMemory(
            shape=shape, tp=8, recompute=recompute, fused_attention=fused, sequence_parallel=True
        )
        figures = [
            memory.activation_bytes(context, context) / _GIB for context in TRAINING_CONTEXTS
        ]
        rows.append(_training_row(words, figures))
    return rows


def _training_row(words: str, figures_gib: Sequence[float]) -> Row:
    short, long = figures_gib
    return {
        "training_batch": words,
        "gib_at_4096": round(short, 1),
        "gib_at_8192": round(long, 1),
        "ratio": round(long / short, 3),
    }


def make_figures(cells: Sequence[Fig3Cell]) -> dict[str, Figure]:
    """Count how often each rule is right, and list what lies beyond capacity."""
    memory = make_memory()
    small_tokens, large_tokens = (memory.capacity_tokens(tp) for tp in (SMALL_TP, LARGE_TP))
    throughput = RooflineThroughput(memory=memory)
    right = [
        count_right(cells, capacity_rule(make_memory(share, reserve).capacity_tokens(SMALL_TP)))
        for share in UTILISATIONS
        for reserve in RESERVES_BYTES
    ]
    _, num_context_right = best_context_rule(cells)
    right_by_roofline = count_right(cells, lambda cell: predict_percent(cell, throughput) > 0)
    beyond = [list_beyond(cells, tokens) for tokens in (small_tokens, large_tokens)]
    within = [cell for cell in cells if cell not in beyond[0]]
    of_cells = "of 29 cells"
    figures = {
        "signs_right_by_memory_rule": Figure(
            value=count_right(cells, capacity_rule(small_tokens)), unit=of_cells, goal="== 29"
        ),
        "signs_right_at_worst_constants": Figure(value=min(right), unit=of_cells, goal="== 29"),
        "signs_right_by_context_rule": Figure(value=num_context_right, unit=of_cells, goal=""),
        "signs_right_by_roofline": Figure(value=right_by_roofline, unit=of_cells, goal=""),
        "roofline_error_within_capacity": Figure(
            value=mean_error(within, throughput), unit="points", goal=""
        ),
        "roofline_error_beyond_capacity": Figure(
            value=mean_error(beyond[0], throughput), unit="points", goal=""
        ),
        "capacity_tp4": Figure(value=small_tokens, unit="tokens", goal=""),
        "capacity_tp8": Figure(value=large_tokens, unit="tokens", goal=""),
        "cells_beyond_capacity_tp4": Figure(value=len(beyond[0]), unit="of 30", goal=""),
        "cells_beyond_capacity_tp8": Figure(value=len(beyond[1]), unit="of 30", goal=""),
    }
    first = training_rows()[0]
    for context, reported in zip(TRAINING_CONTEXTS, REPORTED_GB, strict=True):
        figures[f"llama_70b_batch_{context}"] = Figure(
            value=float(str(first[f"gib_at_{context}"])), unit=f"GiB ({reported})", goal=""
        )
    return figures


def describe_beyond(cells: Sequence[Fig3Cell], memory: MemoryModel) -> list[str]:
    """Name the cells in which the engine has to queue or preempt, at each degree."""
    return [
        f"Beyond the capacity of TP {tp}: "
        + ", ".join(
            f"{cell.num_responses} x {cell.context_tokens // 1024}k"
            for cell in list_beyond(cells, memory.capacity_tokens(tp))
        )
        for tp in (SMALL_TP, LARGE_TP)
    ]


def measure(quick: bool) -> Section:
    """Compare everything; it takes no time and is the same when quick."""
    del quick
    cells, memory = read_cells(), make_memory()
    notes = [*describe_beyond(cells, memory), *explain_failure(cells, memory)]
    rows = [*cell_rows(cells, memory), *training_rows(), *({"note": note} for note in notes)]
    return Section(figures=make_figures(cells), rows=rows)
