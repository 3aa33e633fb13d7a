"""Ranks with a GPU each: what NCCL delivers is what gloo delivers."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns, RowSizes, dispatch, execute_local, plan_transfer
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_problem, run_ranks

NUM_RANKS = 2

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < NUM_RANKS, reason="needs two GPUs"),
]


def on(device: torch.device, columns: Columns) -> Columns:
    """Move columns to a device."""
    moved = {
        kind: {name: values.to(device) for name, values in getattr(columns, kind).items()}
        for kind in ("per_token", "per_turn", "per_row")
    }
    turns = None if columns.turns is None else columns.turns.to(device)
    return replace(columns, lengths=columns.lengths.to(device), turns=turns, **moved)


def dispatch_over_nccl(folder: Path) -> int:
    rank = dist.get_rank()
    dist.destroy_process_group()
    torch.cuda.set_device(rank)
    dist.init_process_group(
        "nccl",
        init_method=(folder / "nccl").as_uri(),
        rank=rank,
        world_size=NUM_RANKS,
        timeout=timedelta(seconds=60),
    )
    gpu = torch.device("cuda", rank)
    for seed in range(40):
        batch, source, target, hosts = random_problem(seed, max_ranks=NUM_RANKS)
        plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
        empty = Columns.empty(batch.schema())
        held = [chunk_of_columns(batch, source, each) for each in range(plan.num_ranks)]
        held = [columns if columns.num_rows else empty for columns in held]
        expected = [*execute_local(plan, held), *[empty] * (NUM_RANKS - plan.num_ranks)]
        own = [*held, *[empty] * (NUM_RANKS - plan.num_ranks)][rank]
        for transport in ("all_to_all", "gather_scatter", "pipelined"):
            received = dispatch(plan, on(gpu, own), transport=transport, timeout_s=60.0)
            assert_same_bits(on(torch.device("cpu"), received), expected[rank])
    dist.destroy_process_group()
    return seed


def test_columns_on_gpus_arrive_over_nccl_bit_for_bit(tmp_path):
    assert run_ranks(NUM_RANKS, dispatch_over_nccl, tmp_path, timeout_s=300.0) == [39, 39]
