"""Ranks of a process group on emulated hosts, one per host, that dispatch what they are told to."""

import hashlib
import logging
import multiprocessing
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, final

import torch
import torch.distributed as dist
from dispatch_ray import ENVIRONMENT
from earl_dispatch import (
    Columns,
    Layout,
    RowSizes,
    TransferPlan,
    dispatch,
    execute_local,
    plan_transfer,
)
from emulated_hosts import INTERFACE, EmulatedHosts, Traffic

ROWS_PER_HOST = 16
_TIMEOUT_S = 120.0
# Ranks are ready well before this, so that they start together.
_LEAD_S = 0.2
# Acknowledgements are still under way when the last rank has its data.
_SETTLE_S = 0.3


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Rows of one length that lie evenly on all hosts and of which each host needs a part."""

    num_hosts: int
    tokens_per_row: int

    @property
    def num_rows(self) -> int:
        """Rows on all hosts together."""
        return ROWS_PER_HOST * self.num_hosts

    @cached_property
    def plan(self) -> TransferPlan:
        """The transfer of all rows.

        Consecutive rows are of different hosts and go to different ones, which gives a pipelined
        controller an even load in both directions at all times.
        """
        groups = tuple((rank,) for rank in range(self.num_hosts))
        rows = range(self.num_rows)
        schema = self.columns(0).schema()
        return plan_transfer(
            Layout(owners=tuple(row % self.num_hosts for row in rows), groups=groups),
            Layout(
                owners=tuple((row + row // self.num_hosts) % self.num_hosts for row in rows),
                groups=groups,
            ),
            sizes=RowSizes.of(schema, [self.tokens_per_row] * self.num_rows),
        )

    @property
    def total_bytes(self) -> int:
        """Bytes of all rows."""
        return sum(map(self.plan.sizes.row_bytes, range(self.num_rows)))

    @cached_property
    def expected_digests(self) -> tuple[str, ...]:
        """Of what each rank holds in the end."""
        columns = [self.columns(rank) for rank in range(self.num_hosts)]
        return tuple(map(digest, execute_local(self.plan, columns)))

    def columns(self, rank: int) -> Columns:
        """Make the rows that a rank holds: what an experience consists of, of random values."""
        generator = torch.Generator().manual_seed(rank)
        num_tokens = ROWS_PER_HOST * self.tokens_per_row
        return Columns(
            lengths=torch.full((ROWS_PER_HOST,), self.tokens_per_row),
            per_token={
                "ids": torch.randint(1 << 17, (num_tokens,), generator=generator).int(),
                "mask": torch.randint(2, (num_tokens,), generator=generator).bool(),
                "logprobs": torch.randn(num_tokens, generator=generator),
                "ref_logprobs": torch.randn(num_tokens, generator=generator),
            },
            per_row={"rewards": torch.randn(ROWS_PER_HOST, generator=generator)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """One transfer that all ranks have executed together."""

    seconds: float
    """From the start of the first rank to the end of the last."""
    digests: tuple[str, ...]
    """Of what each rank then holds."""
    sent: tuple[Traffic, ...]
    """What each host sent."""
    received: tuple[Traffic, ...]
    """What each host received."""


@final
class Ranks:
    """Running processes, each on a host of its own."""

    def __init__(self, hosts: EmulatedHosts, connections: Sequence[Connection]) -> None:
        self._hosts = hosts
        self._connections = connections

    def attach(self, address: str) -> None:
        """Attach every rank to the node that a Ray cluster has on its host.

        Raises:
            RuntimeError: If a rank fails.
            TimeoutError: If one takes too long.
        """
        self._tell(address)
        self.answers()

    def dispatch(self, batch: Batch, transport: str) -> Dispatched:
        """Execute a batch's transfer on all ranks at the same time.

        Raises:
            RuntimeError: If a rank fails.
            TimeoutError: If one takes too long.
        """
        self._tell((batch, transport))
        self.answers()
        before = self._hosts.traffic()
        self._tell(time.monotonic() + _LEAD_S)
        starts, ends, digests = zip(*self.answers(), strict=True)
        time.sleep(_SETTLE_S)
        after = self._hosts.traffic()
        sent, received = (
            tuple(now[way].since(then[way]) for then, now in zip(before, after, strict=True))
            for way in (0, 1)
        )
        return Dispatched(
            seconds=max(ends) - min(starts), digests=digests, sent=sent, received=received
        )

    def _tell(self, message: object) -> None:
        for connection in self._connections:
            connection.send(message)

    def answers(self) -> list[Any]:
        """Wait for one answer of every rank."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        answers: dict[int, object] = {}
        while len(answers) < len(self._connections):
            missing = {c: rank for rank, c in enumerate(self._connections) if rank not in answers}
            ready = wait(list(missing), timeout=max(0.0, deadline_s - time.monotonic()))
            if not ready:
                raise TimeoutError(f"no answer in {_TIMEOUT_S} s of rank {list(missing.values())}")
            for connection in ready:
                assert isinstance(connection, Connection)
                rank = missing[connection]
                try:
                    answers[rank] = connection.recv()
                except EOFError:
                    raise RuntimeError(f"rank {rank} died, see its traceback above") from None
        return [answers[rank] for rank in range(len(answers))]


@contextmanager
def started_ranks(hosts: EmulatedHosts) -> Generator[Ranks, None, None]:
    """Start a rank on every host and end them all, whatever happens in between."""
    # One server imports torch once and forks the ranks.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["earl_dispatch.testing"])
    connections: list[Connection] = []
    processes: list[BaseProcess] = []
    folder = tempfile.mkdtemp()
    try:
        for rank in range(hosts.num_hosts):
            here, there = context.Pipe()
            connections.append(here)
            process = context.Process(
                target=_serve, args=(hosts, rank, Path(folder) / "rendezvous", there)
            )
            process.start()
            processes.append(process)
            there.close()
        ranks = Ranks(hosts, connections)
        ranks.answers()
        yield ranks
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        for connection in connections:
            connection.close()
        shutil.rmtree(folder)


def digest(columns: Columns) -> str:
    """Return a number of what columns hold, bit for bit."""
    summed = hashlib.sha256(columns.lengths.numpy().tobytes())
    for kind in (columns.per_token, columns.per_row):
        for name in sorted(kind):
            summed.update(kind[name].view(torch.uint8).numpy().tobytes())
    return summed.hexdigest()


def _serve(hosts: EmulatedHosts, rank: int, rendezvous: Path, connection: Connection) -> None:
    """Run in a new process until it is ended."""
    hosts.enter(rank)
    os.environ |= {"GLOO_SOCKET_IFNAME": INTERFACE, **ENVIRONMENT}
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        # A rendezvous over the emulated network would look up names that nobody serves.
        init_method=rendezvous.as_uri(),
        rank=rank,
        world_size=hosts.num_hosts,
        timeout=timedelta(seconds=_TIMEOUT_S),
    )
    connection.send("connected")
    while True:
        asked = connection.recv()
        if isinstance(asked, str):
            _attach(asked, hosts.address(rank))
            connection.send("attached")
            continue
        batch, transport = asked
        columns, plan = batch.columns(rank), batch.plan
        connection.send("ready")
        time.sleep(max(0.0, connection.recv() - time.monotonic()))
        start_s = time.monotonic()
        result = dispatch(plan, columns, transport=transport, timeout_s=_TIMEOUT_S)
        connection.send((start_s, time.monotonic(), digest(result)))


def _attach(cluster: str, own: str) -> None:
    import ray

    ray.init(
        address=cluster,
        _node_ip_address=own,
        namespace="bench_dispatch",
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
