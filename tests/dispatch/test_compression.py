from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns, Layout, RowSizes, dispatch, plan_transfer
from earl_dispatch.compression import (
    compress_columns,
    compressed_plan,
    compression_problem,
    decompress_columns,
)
from earl_dispatch.testing import assert_same_bits, run_ranks
from hypothesis import given, settings
from hypothesis import strategies as st

BOTH = {"ref": "bfloat16", "old": "int8_delta:rollout"}
LENGTHS = (3, 0, 5, 1, 4, 2)
SOURCE = Layout.contiguous(num_rows=6, num_ranks=3)
TARGET = Layout(owners=(2, 1, 0) * 2, groups=SOURCE.groups)

any_bits = st.integers(0, 2**32 - 1)
ordinary = st.floats(-(2.0**100), 2.0**100, width=32)
tiny = st.floats(-(2.0**-140), 2.0**-140, width=32)
rows = st.lists(st.lists(st.tuples(ordinary | tiny, ordinary | tiny), max_size=5), max_size=4)


def make_columns(pairs: list[list[tuple[float, float]]]) -> Columns:
    values = torch.tensor([pair for row in pairs for pair in row]).reshape(-1, 2).float()
    return Columns(
        lengths=torch.tensor([len(row) for row in pairs], dtype=torch.int64),
        per_token={"old": values[:, 0].contiguous(), "rollout": values[:, 1].contiguous()},
    )


@settings(deadline=None)
@given(bits=st.lists(any_bits, max_size=20))
def test_bfloat16_keeps_the_stated_bound_for_all_bits(bits):
    values = torch.tensor(bits, dtype=torch.int64).to(torch.uint32).view(torch.float32)
    columns = Columns(lengths=torch.tensor([len(bits)]), per_token={"ref": values})
    how = {"ref": "bfloat16"}
    after = decompress_columns(compress_columns(columns, how), how).per_token["ref"]
    special = ~values.isfinite()
    assert torch.equal(after[special].nan_to_num(), values[special].nan_to_num())
    assert after[values.isnan()].isnan().all()
    exact, error = values.double().abs(), (after.double() - values.double()).abs()
    normal = (exact >= 2.0**-126) & (exact <= (2 - 2**-7) * 2.0**127)
    assert (error[normal] <= 2.0**-8 * exact[normal]).all()
    assert (error[exact < 2.0**-126] <= 2.0**-134).all()


@settings(deadline=None)
@given(pairs=rows)
def test_int8_delta_keeps_the_stated_bound(pairs):
    columns, how = make_columns(pairs), {"old": "int8_delta:rollout"}
    compressed = compress_columns(columns, how)
    assert compressed.per_token["old"].dtype == torch.int8
    after = decompress_columns(compressed, how)
    assert after.schema() == columns.schema()
    assert after.per_token["rollout"].equal(columns.per_token["rollout"])
    values, base = columns.per_token["old"].double(), columns.per_token["rollout"].double()
    found = after.per_token["old"].double()
    for number, tokens in enumerate(columns.lengths.tensor_split(len(pairs)) if pairs else []):
        start = int(columns.lengths[:number].sum())
        piece = slice(start, start + int(tokens))
        if piece.start == piece.stop:
            continue
        step = (values - base)[piece].abs().max() / 127
        # A product of float64 is rounded too, and the smallest float32 is coarse.
        allowed = step / 2 * (1 + 1e-9) + 2.0**-24 * found[piece].abs() + 2.0**-149
        assert ((found - values)[piece].abs() <= allowed).all()


def make_batch() -> Columns:
    generator = torch.Generator().manual_seed(1)
    old, ref, noise = torch.randn(3, sum(LENGTHS), generator=generator)
    return Columns(
        lengths=torch.tensor(LENGTHS),
        per_token={"old": old, "ref": ref, "rollout": old + 0.01 * noise},
        per_row={"reward": torch.arange(6.0)},
    )


def make_plan(source: Layout = SOURCE):
    return plan_transfer(source, TARGET, sizes=RowSizes.of_columns(make_batch()))


def held_by(rank: int) -> Columns:
    return make_batch().select(SOURCE.rows_of(rank))


def dispatch_compressed() -> list[Columns]:
    rank = dist.get_rank()
    held = held_by(rank)
    received = [
        dispatch(make_plan(), held, transport=transport, compress=BOTH)
        for transport in ("all_to_all", "pipelined", "shared_memory")
    ]
    assert_same_bits(held, held_by(rank))
    return received


def dispatch_what_cannot_be_compressed() -> str:
    rank = dist.get_rank()
    held = held_by(rank)
    if rank == 1:
        broken = held.per_token["rollout"].clone()
        broken[0] = -torch.inf
        held = replace(held, per_token={**held.per_token, "rollout": broken})
    with pytest.raises(ValueError, match="rank 1") as refused:
        dispatch(make_plan(), held, transport="all_to_all", compress=BOTH, timeout_s=20.0)
    return str(refused.value)


def test_rows_are_the_same_wherever_they_go_and_however():
    once = decompress_columns(compress_columns(make_batch(), BOTH), BOTH)
    assert not once.per_token["ref"].equal(make_batch().per_token["ref"])
    for rank, results in enumerate(run_ranks(3, dispatch_compressed)):
        for received in results:
            assert_same_bits(received, once.select(TARGET.rows_of(rank)))


def test_all_ranks_refuse_what_one_cannot_compress():
    messages = run_ranks(3, dispatch_what_cannot_be_compressed)
    assert len(set(messages)) == 1
    assert "rank 1: int8_delta needs finite values, 'rollout' has others" in messages[0]


def test_the_plan_counts_the_bytes_that_are_sent():
    plan, batch = make_plan(), compress_columns(make_batch(), BOTH)
    assert compressed_plan(plan, BOTH).sizes == RowSizes.of_columns(batch)
    row = plan.sizes.lengths.index(5)
    assert plan.sizes.row_bytes(row) - compressed_plan(plan, BOTH).sizes.row_bytes(row) == 5 * 5 - 8
    assert compressed_plan(plan, {}) == plan


@pytest.mark.parametrize(
    ("compression", "num_chunks", "part"),
    [
        ({"ref": "int4"}, 1, "a method is 'bfloat16' or 'int8_delta:base', that of 'ref' is"),
        ({"reward": "bfloat16"}, 1, "per-token float32 values, 'reward' is no such column"),
        ({"ref": "int8_delta:non"}, 1, "'non' is no such column"),
        ({"ref": "int8_delta:old", "old": "bfloat16"}, 1, "the base of 'ref' travels as it is"),
        ({"ref": "int8_delta:old"}, 2, "needs rows in 1 chunk, the source has 2"),
        (BOTH, 1, ""),
        ({"ref": "bfloat16"}, 2, ""),
    ],
)
def test_what_cannot_be_compressed_is_said(compression, num_chunks, part):
    problem = compression_problem(make_batch(), compression, num_chunks=num_chunks)
    assert part in problem
    assert bool(part) == bool(problem)


def test_a_column_in_the_way_of_a_scale_is_said():
    batch = make_batch()
    batch = replace(batch, per_row={"old:scale": batch.per_row["reward"]})
    problem = compression_problem(batch, BOTH, num_chunks=1)
    assert problem == "int8_delta adds a column 'old:scale', there is one already"


def test_halves_are_refused():
    batch = make_batch()
    batch = replace(batch, per_token={"ref": batch.per_token["ref"].half()})
    problem = compression_problem(batch, {"ref": "bfloat16"}, num_chunks=1)
    assert problem == "compression needs per-token float32 values, 'ref' is torch.float16"
