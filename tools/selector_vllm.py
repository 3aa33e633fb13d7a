"""vLLM at degrees 1 and 2: how long a switch takes, and whether the replies stay the same.

    python tools/bench_selector.py --only vllm

On a CPU vLLM cannot sleep, so each switch ends its processes and starts new ones; most of that time
is their imports.
"""

import time
from collections.abc import Sequence

import torch
from bench_section import Row, Section
from benchmarking import Figure
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.vllm_engine import VllmEngine
from transformers import LlamaConfig, LlamaForCausalLM

_STOP_IDS = frozenset({2, 3, 4})
_NUM_VOCAB = 64
_TIE = 1e-4
"""Two best logits nearer than this are counted apart: either may be chosen."""
_MEMORY_BYTES = 16 * 1024**2


def make_model() -> LlamaForCausalLM:
    """Make a small Llama with random float32 weights of a shape that vLLM's CPU kernels take."""
    config = LlamaConfig(
        vocab_size=_NUM_VOCAB,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=0.15,
        bos_token_id=None,
        eos_token_id=4,
        pad_token_id=0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return LlamaForCausalLM(config).eval()


def make_requests(num: int) -> list[Request]:
    """Make greedy requests with random prompts."""
    rng = torch.Generator().manual_seed(1)
    return [
        Request(
            sequence_id=place,
            prompt_ids=torch.randint(5, _NUM_VOCAB, (4 + place % 29,), generator=rng).tolist(),
            max_new_tokens=48,
            temperature=0.0,
            seed=0,
        )
        for place in range(num)
    ]


@torch.no_grad()
def is_tie(model: LlamaForCausalLM, context: Sequence[int]) -> bool:
    """Whether the two best next tokens are as good as equal."""
    best, second = model(torch.tensor([list(context)])).logits[0, -1].topk(2).values.tolist()
    return best - second < _TIE


def compare(
    model: LlamaForCausalLM,
    requests: Sequence[Request],
    before: Sequence[Completion],
    after: Sequence[Completion],
) -> Row:
    """Count replies that are identical, or differ from a tie on, and their log-probs' distance."""
    num_identical, num_tied, difference = 0, 0, 0.0
    for request, old, new in zip(requests, before, after, strict=True):
        pairs = list(zip(old.ids, new.ids, strict=False))
        length = next((place for place, (a, b) in enumerate(pairs) if a != b), len(pairs))
        distances = [
            abs(a - b) for a, b in zip(old.logprobs[:length], new.logprobs[:length], strict=True)
        ]
        difference = max([difference, *distances])
        if list(old.ids) == list(new.ids):
            num_identical += 1
        elif is_tie(model, [*request.prompt_ids, *old.ids[:length]]):
            num_tied += 1
    return {
        "replies": len(requests),
        "identical": num_identical,
        "tied": num_tied,
        "max_difference": difference,
    }


def measure_switches(engine: VllmEngine, model: LlamaForCausalLM, *, num_rounds: int) -> list[Row]:
    """Switch 1 -> 2 -> 1 some times, with the same requests before and after each."""
    requests = make_requests(64)
    rows: list[Row] = []
    before = engine.generate(requests)
    for tp in (2, 1) * num_rounds:
        switch = engine.resize(tp)
        assert switch is not None
        memory = engine.switch_memory
        if not switch.done or memory is None:
            raise RuntimeError(switch.describe())
        after = engine.generate(requests)
        rows.append({
            "from_tp": switch.from_tp,
            "to_tp": switch.to_tp,
            "switch_s": switch.switch_s,
            "before_bytes": memory.before_bytes,
            "released_bytes": memory.released_bytes,
            "after_bytes": memory.after_bytes,
            "problem": switch.problem,
            **compare(model, requests, before, after),
        })
        before = after
    return rows


def make_figures(rows: Sequence[Row], *, start_s: float) -> dict[str, Figure]:
    """Condense the switches."""

    def total(name: str) -> float:
        return sum(float(str(row[name])) for row in rows)

    def median_s(to_tp: int) -> float:
        times = sorted(float(str(row["switch_s"])) for row in rows if row["to_tp"] == to_tp)
        return times[len(times) // 2]

    return {
        "same_or_tied_replies": Figure(
            value=(total("identical") + total("tied")) / total("replies"), unit="share", goal="== 1"
        ),
        "tied_replies": Figure(value=total("tied"), unit="replies", goal=""),
        "max_logprob_difference": Figure(
            value=max(float(str(row["max_difference"])) for row in rows),
            unit="nats",
            goal="<= 1e-4",
        ),
        "memory_given_back": Figure(
            value=total("released_bytes") / total("before_bytes"), unit="share", goal="== 1"
        ),
        "first_start": Figure(value=start_s, unit="s", goal=""),
        "switch_1_to_2": Figure(value=median_s(2), unit="s", goal=""),
        "switch_2_to_1": Figure(value=median_s(1), unit="s", goal=""),
    }


def measure(quick: bool) -> Section:
    """Start vLLM once and switch it: there and back if quick, three times otherwise."""
    model = make_model()
    memory = MemoryModel(
        shape=ModelShape.from_config(model.config.to_dict()),
        device=DeviceSpec.cpu(_MEMORY_BYTES),
        bytes_per_parameter=4,
        bytes_per_kv_value=4,
        utilisation=1.0,
        reserve_bytes=0,
    )
    engine = VllmEngine(model, stop_ids=_STOP_IDS, memory=memory, max_context_tokens=1024)
    try:
        begin_s = time.perf_counter()
        engine.load_weights(0)
        start_s = time.perf_counter() - begin_s
        rows = measure_switches(engine, model, num_rounds=1 if quick else 3)
    finally:
        engine.close()
    return Section(figures=make_figures(rows, start_s=start_s), rows=rows)
