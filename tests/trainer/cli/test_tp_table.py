"""A plan in words and columns."""

from dataclasses import replace

import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, MemoryModel
from earl_selector.tp_plan import TpPlan
from earl_trainer.cli.tp_table import describe_plan, format_tokens

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)


class Made:
    """Degree 4 does 1,234.5 tokens per second, degree 8 does 3.456 per 1,000 of its context."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        if MEMORY.capacity_tokens(tp) < context_tokens:
            return 0.0
        return 1234.5 if tp == 4 else 3.456 * context_tokens / 1000


PLAN = TpPlan(
    memory=MEMORY,
    throughput=Made(),
    degrees=(4, 8),
    num_responses=32,
    contexts=(1024, 16_384, 460_800, 2_000_000),
)


def rows_of(text):
    return {line.split("  ")[0]: line.split() for line in text.splitlines() if line}


def test_each_context_shows_speed_memory_and_the_fastest_degree():
    rows = rows_of(describe_plan(PLAN, num_devices=8))
    used = MEMORY.used_bytes(4, 32 * 1024) / 1e9
    assert rows["1k"] == ["1k", "32k", "1,234", f"{used:.1f}", "3.54", "22.5", "tp", "4"]
    # 27 of 32 fit at tp 4, which the star says; at tp 8 all do.
    assert rows["16k"][2:5:2] == ["1,234*", "56.6"]


def test_what_does_not_fit_has_no_speed():
    rows = rows_of(describe_plan(PLAN, num_devices=8))
    assert rows["450k"][2:4] == ["-", "-"]
    assert rows["450k"][4].endswith("*")
    assert rows["450k"][-2:] == ["tp", "8"]
    assert rows["2,000,000"][2:] == ["-", "-", "-", "-", "-"]


def test_each_degree_shows_its_engines_and_both_bounds():
    rows = rows_of(describe_plan(PLAN, num_devices=8))
    assert rows["4"] == ["4", "2", "36.4", "80", "452,803", "14,150", "452,803"]
    assert rows["8"] == ["8", "1", "18.2", "40", "1,349,362", "42,167", "1,349,362"]


def test_crossover_and_wall_are_said_in_sentences():
    text = describe_plan(PLAN, num_devices=8)
    assert (
        "crossover: from a context of 357,205 tokens on (11,430,560 resident), tp 8 is faster than "
        "tp 4\n"
    ) in text
    assert "out-of-memory wall: a context of 1,349,362 tokens (tp 8)" in text
    short = describe_plan(replace(PLAN, contexts=(1024,)), num_devices=8)
    assert "crossover: none among these contexts" in short


@pytest.mark.parametrize(
    ("tokens", "text"), [(1024, "1k"), (65_536, "64k"), (1000, "1,000"), (2**20, "1024k")]
)
def test_tokens_are_written_by_the_thousand_where_they_are_even(tokens, text):
    assert format_tokens(tokens) == text
