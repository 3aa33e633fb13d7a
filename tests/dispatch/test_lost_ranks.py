"""A rank is killed in mid-transfer."""

import os
import signal
import socket
import time
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Layout, RowSizes, TransferPlan, dispatch, plan_transfer
from earl_dispatch.execution import Execution
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_columns, run_ranks

LENGTHS = (3000, 0, 50_000, 1, 7000, 20_000, 9, 30_000)
LOST = 2
# What the lost rank holds, rank 3 holds too.
SOURCE = Layout.contiguous(num_rows=len(LENGTHS), num_ranks=4, replicas_per_group=2)
TARGET = Layout(owners=(2, 3, 2, 3, 0, 1, 0, 1), groups=((0,), (1,), (2,), (3,)))
SURVIVING_SOURCE = Layout(owners=SOURCE.owners, groups=((0, 1), (2,)))
SURVIVING_TARGET = Layout(owners=(2, 2, 2, 2, 0, 1, 0, 1), groups=((0,), (1,), (2,)))
TIMEOUT_S = 10.0


def make_batch():
    return random_columns(LENGTHS, torch.Generator().manual_seed(5))


def make_plan(source: Layout, target: Layout) -> TransferPlan:
    return plan_transfer(source, target, sizes=RowSizes.of_columns(make_batch()))


def die_after(place: str, number: int) -> None:
    """Kill this process, without a chance to say so, after so many calls of a function."""
    owner, name = {
        "accept": (Execution, "accept"),
        "arrivals": (Execution, "arrivals"),
        "isend": (dist, "isend"),
    }[place]
    function, calls = getattr(owner, name), []

    def call_and_die(*args, **kwargs):
        result = function(*args, **kwargs)
        calls.append(number)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, call_and_die)


def lose_a_rank_and_go_on(
    transport: str, place: str, number: int, folder: Path
) -> tuple[float, str]:
    rank, batch = dist.get_rank(), make_batch()
    columns = chunk_of_columns(batch, SOURCE, rank)
    if rank == LOST:
        die_after(place, number)
    start_s = time.monotonic()
    with pytest.raises(RuntimeError) as broken:
        dispatch(
            make_plan(SOURCE, TARGET),
            columns,
            transport=transport,
            max_buffer_bytes=500_000,
            timeout_s=TIMEOUT_S,
        )
    took_s = time.monotonic() - start_s
    assert_same_bits(columns, chunk_of_columns(batch, SOURCE, rank))
    dist.destroy_process_group()
    new_rank = rank - (rank > LOST)
    dist.init_process_group(
        "gloo",
        init_method=(folder / "second").as_uri(),
        rank=new_rank,
        world_size=3,
        timeout=timedelta(seconds=30),
    )
    plan = make_plan(SURVIVING_SOURCE, SURVIVING_TARGET)
    received = dispatch(plan, columns, transport=transport, timeout_s=TIMEOUT_S)
    assert_same_bits(received, chunk_of_columns(batch, SURVIVING_TARGET, new_rank))
    return took_s, str(broken.value)


@pytest.mark.parametrize(
    ("transport", "place", "number"),
    [
        ("all_to_all", "accept", 2),
        # Each of the two exchanges before it, with agreement and with bytes, sends 3 messages.
        ("all_to_all", "isend", 7),
        ("gather_scatter", "accept", 1),
        ("pipelined", "accept", 4),
        ("shared_memory", "arrivals", 2),
    ],
)
def test_the_others_name_a_rank_that_was_killed_and_can_go_on_without_it(
    transport, place, number, tmp_path
):
    outcomes = run_ranks(
        4, lose_a_rank_and_go_on, transport, place, number, tmp_path, may_die=[LOST]
    )
    assert outcomes.pop(LOST) is None
    for took_s, message in outcomes:
        assert took_s < TIMEOUT_S
        assert f"no answer from rank {LOST};" in message


def lose_the_rank_that_serves_the_store(port: int) -> str:
    rank, columns = dist.get_rank(), make_batch()
    dist.destroy_process_group()
    dist.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3,
        timeout=timedelta(seconds=30),
    )  # fmt: skip
    source = Layout.contiguous(num_rows=len(LENGTHS), num_ranks=3)
    target = Layout(owners=tuple(2 - owner for owner in source.owners), groups=source.groups)
    if rank == 0:
        die_after("isend", 3)
    held = chunk_of_columns(columns, source, rank)
    with pytest.raises(RuntimeError) as broken:
        dispatch(make_plan(source, target), held, transport="all_to_all", timeout_s=TIMEOUT_S)
    return str(broken.value)


def test_the_rank_that_serves_the_groups_store_is_named_when_it_is_killed():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    lost, *others = run_ranks(3, lose_the_rank_that_serves_the_store, port, may_die=[0])
    assert lost is None
    for message in others:
        assert "rank 0" in message
