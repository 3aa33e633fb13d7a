"""The embedded engine at degrees 1 and 2 on two ranks: tokens, drift, bytes and times of switches.

    python tools/bench_selector.py --only engine

A cold start is new rank processes in a Ray cluster that runs already, until their first token; a
switch is `ParallelEngine.resize` with all that belongs to it, the scored probe included, and the
first token after it. What a switch adds to new weights is measured against the same weights sent
to the same degree once more, without a switch.
"""

import logging
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

import ray
from bench_section import Row, Section
from benchmarking import Figure
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.parallel.placement import Placement
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.parallel_engine import ParallelEngine
from earl_trainer.rollout.switch import Switch
from selector_vllm import compare, make_model, make_requests
from transformers import LlamaForCausalLM

_STOP_IDS = frozenset({2, 3, 4})
_ROOMY_BYTES = 64 * 1024**2
_LONG_TOKENS = 400


def memory_of(model: LlamaForCausalLM, memory_bytes: int) -> MemoryModel:
    """Describe the memory of one rank."""
    return MemoryModel(
        shape=ModelShape.from_config(model.config.to_dict()),
        device=DeviceSpec.cpu(memory_bytes),
        bytes_per_parameter=4,
        bytes_per_kv_value=4,
        utilisation=1.0,
        reserve_bytes=0,
    )


@contextmanager
def running(
    model: LlamaForCausalLM, memory_bytes: int, *, tp: int = 1
) -> Generator[ParallelEngine, None, None]:
    """Run one engine over two ranks."""
    placement = Placement(
        num_ranks=2, degrees=(1, 2), memory=memory_of(model, memory_bytes), shares=False
    )
    engine = ParallelEngine(model, placement, stop_ids=_STOP_IDS, tp=tp)
    try:
        engine.load_weights(0)
        yield engine
    finally:
        engine.close()


def measure_cold_start_s(model: LlamaForCausalLM, *, num_rounds: int) -> list[float]:
    """Time new ranks until their first token."""
    times: list[float] = []
    first = [replace(make_requests(1)[0], max_new_tokens=1)]
    for _ in range(num_rounds):
        start_s = time.perf_counter()
        with running(model, _ROOMY_BYTES, tp=2) as engine:
            engine.generate(first)
            times.append(time.perf_counter() - start_s)
    return times


def measure_switches(model: LlamaForCausalLM, *, num_rounds: int) -> tuple[list[Row], bool]:
    """Switch 1 -> 2 -> 1 some times; also say whether degree 1 ends bit for bit as it began."""
    requests, rows = make_requests(64), list[Row]()
    first = [replace(requests[0], sequence_id=10_000, max_new_tokens=1)]
    with running(model, _ROOMY_BYTES) as engine:
        original = before = engine.generate(requests)
        for tp in (2, 1) * num_rounds:
            start_s = time.perf_counter()
            switch = engine.resize(tp)
            engine.generate(first)
            ready_s = time.perf_counter() - start_s
            assert switch is not None
            if not switch.done or switch.drift is None:
                raise RuntimeError(switch.describe())
            after = engine.generate(requests)
            rows.append({
                "from_tp": switch.from_tp,
                "to_tp": switch.to_tp,
                "switch_s": switch.switch_s,
                "first_token_s": ready_s,
                "bytes_moved": switch.bytes_moved,
                "bytes_lower_bound": switch.bytes_lower_bound,
                "probe_max_difference": switch.drift.max_difference,
                "probe_token_mult_prob_error": switch.drift.token_mult_prob_error,
                **compare(model, requests, before, after),
            })
            before = after
        identical = _bits(before) == _bits(original)
    return rows, identical


def measure_publication(model: LlamaForCausalLM, *, num_rounds: int) -> list[Row]:
    """Send new weights with a switch, 1 -> 2 -> 1 some times, and to the same degree without."""
    rows: list[Row] = []
    with running(model, _ROOMY_BYTES) as engine:
        engine.generate(make_requests(64))  # Which the probe is taken from.
        for tp in (2, 1) * num_rounds:
            switch, switching_s, switching_bytes = _publish(engine, tp)
            if switch is None or not switch.with_weights or switch.problem:
                raise RuntimeError(f"no switch with new weights: {switch}")
            _, alone_s, alone_bytes = _publish(engine, tp)
            rows.append({
                "to_tp": tp,
                "publication_s": alone_s,
                "publication_with_switch_s": switching_s,
                "publication_bytes": alone_bytes,
                "publication_with_switch_bytes": switching_bytes,
            })
    return rows


def _publish(engine: ParallelEngine, tp: int) -> tuple[Switch | None, float, int]:
    """Send weights at a degree; return the switch, the seconds, and the bytes that ranks got."""
    before_bytes = sum(rank.received_bytes for rank in engine.memory())
    start_s = time.perf_counter()
    engine.load_weights(engine.version + 1)
    switch = engine.resize(tp)
    took_s = time.perf_counter() - start_s
    after_bytes = sum(rank.received_bytes for rank in engine.memory())
    return switch, took_s, after_bytes - before_bytes


def _bits(completions: Sequence[Completion]) -> list[tuple[list[int], list[float]]]:
    return [(list(each.ids), list(each.logprobs)) for each in completions]


def measure_overflow(model: LlamaForCausalLM) -> Row:
    """Ask for contexts that one rank cannot hold, and two can."""
    weights_bytes = sum(parameter.nbytes for parameter in model.parameters())
    per_token = memory_of(model, _ROOMY_BYTES).kv_bytes_per_token(1)
    memory_bytes = weights_bytes + (_LONG_TOKENS - 1) * per_token
    requests = [
        replace(each, prompt_ids=(list(each.prompt_ids) * _LONG_TOKENS)[: _LONG_TOKENS - 48])
        for each in make_requests(8)
    ]
    with running(model, memory_bytes) as engine:
        try:
            engine.generate(requests)
        except ValueError as error:
            refusal = str(error)
        else:
            raise RuntimeError("a context larger than the memory was generated")
        switch = engine.resize(2)
        if switch is None or not switch.done:
            raise RuntimeError("the degree did not change")
        completions = engine.generate(requests)
        ranks = engine.memory()
    whole = {FinishReason.STOP, FinishReason.LENGTH}
    return {
        "note": f"at tp 1: {refusal}; at tp 2 all replies are whole",
        "contexts": len(requests),
        "context_tokens": _LONG_TOKENS,
        "truncated": sum(each.finish_reason not in whole for each in completions),
        "budget_bytes": memory_bytes,
        "most_held_bytes": max(each.weights_bytes + each.peak_kv_bytes for each in ranks),
    }


def make_figures(
    switches: Sequence[Row], cold_s: Sequence[float], overflow: Row, *, identical: bool
) -> dict[str, Figure]:
    """Condense what was measured of switches."""

    def values(name: str, to_tp: int | None = None) -> list[float]:
        return _values([row for row in switches if to_tp in (None, row["to_tp"])], name)

    same = sum(values("identical")) + sum(values("tied"))
    slowest_s = max(median(values("first_token_s", tp)) for tp in (1, 2))
    moved, bound = sum(values("bytes_moved")), sum(values("bytes_lower_bound"))
    held = float(str(overflow["most_held_bytes"])) / float(str(overflow["budget_bytes"]))
    return {
        "same_or_tied_replies": Figure(
            value=same / sum(values("replies")), unit="share", goal="== 1"
        ),
        "tied_replies": Figure(value=sum(values("tied")), unit="replies", goal=""),
        "max_logprob_difference": Figure(
            value=max(values("probe_max_difference")), unit="nats", goal="<= 1e-4"
        ),
        "back_at_tp_1_bit_for_bit": Figure(value=float(identical), unit="share", goal="== 1"),
        "moved_over_lower_bound": Figure(value=moved / bound, unit="ratio", goal="== 1"),
        "moved_upward": Figure(value=max(values("bytes_moved", 2)), unit="bytes", goal="== 0"),
        "switch_1_to_2": Figure(value=median(values("first_token_s", 2)), unit="s", goal=""),
        "switch_2_to_1": Figure(value=median(values("first_token_s", 1)), unit="s", goal=""),
        "cold_start": Figure(value=median(cold_s), unit="s", goal=""),
        "cold_start_over_switch": Figure(
            value=median(cold_s) / slowest_s, unit="ratio", goal=">= 5"
        ),
        "truncated_at_tp_2": Figure(
            value=float(str(overflow["truncated"])), unit="replies", goal="== 0"
        ),
        "held_over_budget": Figure(value=held, unit="ratio", goal="<= 1"),
    }


def make_publication_figures(rows: Sequence[Row]) -> dict[str, Figure]:
    """Condense what was measured of new weights."""
    alone, switching = (_values(rows, f"publication{kind}_bytes") for kind in ("", "_with_switch"))
    return {
        "publication_with_switch_over_publication": Figure(
            value=max(more / less for more, less in zip(switching, alone, strict=True)),
            unit="ratio of bytes",
            goal="== 1",
        ),
        "publication": Figure(value=median(_values(rows, "publication_s")), unit="s", goal=""),
        "publication_with_switch": Figure(
            value=median(_values(rows, "publication_with_switch_s")), unit="s", goal=""
        ),
    }


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [float(str(row[name])) for row in rows]


def measure(quick: bool) -> Section:
    """Measure in a Ray cluster that is started first, as is what times leave out."""
    model, num_rounds = make_model(), 1 if quick else 5
    options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False}
    ray.init(num_cpus=2, logging_level=logging.ERROR, object_store_memory=128 * 1024**2, **options)
    try:
        switches, identical = measure_switches(model, num_rounds=num_rounds)
        publications = measure_publication(model, num_rounds=num_rounds)
        cold_s = measure_cold_start_s(model, num_rounds=1 if quick else 3)
        overflow = measure_overflow(model)
    finally:
        ray.shutdown()
    starts: list[Row] = [{"cold_start_s": each} for each in cold_s]
    return Section(
        figures={
            **make_figures(switches, cold_s, overflow, identical=identical),
            **make_publication_figures(publications),
        },
        rows=[*switches, *publications, *starts, overflow],
    )
