"""A plan of tensor-parallel degrees in words and columns."""

from earl_selector.tp_plan import TpPlan

from earl_trainer.cli.columns import align

_LEGEND = """\
tok/s: generated tokens per second and device; GB: memory of a device with the responses that run.
*: more responses than fit, so some queue, which costs time. -: not even one fits: out of memory.
Speeds are a roofline of decoding and not measured; prompts and preemption are not counted.
"""


def describe_plan(plan: TpPlan, *, num_devices: int) -> str:
    """Describe a plan: what it is about, its degrees, its contexts, and where they change."""
    memory, device = plan.memory, plan.memory.device
    head = (
        f"{memory.shape.name}: {memory.shape.num_parameters / 1e9:.3g} billion parameters of "
        f"{memory.bytes_per_parameter} bytes on {num_devices} x {device.name} "
        f"({device.memory_bytes / 1e9:.1f} GB, of which {100 * memory.utilisation:g} % used; "
        f"{memory.reserve_bytes / 1e9:.1f} GB besides weights and cache);\n"
        f"{plan.num_responses} responses in each engine\n"
    )
    parts = [
        head,
        _degrees(plan, num_devices),
        _contexts(plan),
        _changes(plan),
        _LEGEND,
    ]
    return "\n".join(parts)


def format_tokens(tokens: int) -> str:
    """Write 65536 as 64k, and what is no multiple of 1024 in full."""
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"


def _degrees(plan: TpPlan, num_devices: int) -> str:
    memory = plan.memory
    rows: list[tuple[str, ...]] = [
        (
            "tp", "engines", "weights GB", "cache KiB/token", "holds tokens", "queues beyond",
            "out of memory beyond",
        )
    ]  # fmt: skip
    for tp in plan.degrees:
        weights = f"{memory.weights_bytes(tp) / 1e9:.1f}"
        if plan.wall_tokens(tp) == 0:
            rows.append((str(tp), f"weights of {weights} GB leave no room for cache"))
            continue
        rows.append((
            str(tp),
            str(num_devices // tp),
            weights,
            f"{memory.kv_bytes_per_token(tp) / 1024:.4g}",
            f"{memory.capacity_tokens(tp):,}",
            f"{plan.queueing_tokens(tp):,}",
            f"{plan.wall_tokens(tp):,}",
        ))
    return align(rows) + "\n"


def _contexts(plan: TpPlan) -> str:
    degrees = [tp for tp in plan.degrees if plan.wall_tokens(tp) > 0]
    names = [text for tp in degrees for text in (f"tp {tp}: tok/s", "GB")]
    rows: list[tuple[str, ...]] = [("context", "resident", *names, "fastest")]
    for context in plan.contexts:
        cells: list[str] = []
        for tp in degrees:
            forecast = plan.forecast(tp, context)
            queues = "*" if forecast.num_running < plan.num_responses else " "
            cells += (
                [
                    _rate(forecast.tokens_per_s_per_device) + queues,
                    f"{forecast.used_bytes / 1e9:.1f}",
                ]
                if forecast.fits
                else ["- ", "-"]
            )
        best = plan.best_tp(context)
        resident = format_tokens(plan.num_responses * context)
        rows.append((
            format_tokens(context),
            resident,
            *cells,
            "-" if best is None else f"tp {best}",
        ))
    return align(rows) + "\n"


def _changes(plan: TpPlan) -> str:
    lines = [
        f"crossover: from a context of {each.context_tokens:,} tokens on "
        f"({plan.num_responses * each.context_tokens:,} resident), tp {each.to_tp} is faster than "
        f"tp {each.from_tp}"
        for each in plan.crossovers()
    ]
    if not lines:
        lines = ["crossover: none among these contexts"]
    last_tp = max(plan.degrees, key=plan.wall_tokens)
    lines.append(
        f"out-of-memory wall: a context of {plan.wall_tokens(last_tp):,} tokens (tp {last_tp}); "
        "beyond it not even one response fits at any of these degrees"
    )
    return "\n".join(lines) + "\n"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
