"""For tests: real ranks on one machine, and columns of arbitrary bits."""

import importlib.util
import inspect
import multiprocessing
import pickle
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from earl_dispatch.columns import Columns, spread
from earl_dispatch.hosts import Hosts
from earl_dispatch.layout import Layout, chunk_bounds

_DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A function by the file it stands in: modules of tests are not importable by name."""

    module: str
    file: str
    function: str
    pickled_args: bytes

    def call(self) -> object:
        if self.module not in sys.modules:
            spec = importlib.util.spec_from_file_location(self.module, self.file)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[self.module] = module
            spec.loader.exec_module(module)
        function: Callable[..., object] = vars(sys.modules[self.module])[self.function]
        return function(*pickle.loads(self.pickled_args))


def run_ranks(
    num_ranks: int,
    fn: Callable[..., object],
    *args: object,
    timeout_s: float = 60.0,
    may_die: Sequence[int] = (),
) -> list[Any]:
    """Call `fn(*args)` in each of `num_ranks` new processes that form the default gloo group.

    The function asks `torch.distributed` for its rank. Each process uses one thread. All of them
    are ended when the last result is in or the first rank has failed.

    Args:
        num_ranks: Number of processes.
        fn: Function at the top level of its module; what it returns is pickled, so of no class of
            a module that cannot be imported by name.
        args: Arguments, the same on all ranks.
        timeout_s: Longest time to wait for all results, the start of the processes included.
        may_die: Ranks whose death the others survive.

    Returns:
        The result of each rank; None for one that died.

    Raises:
        RuntimeError: If a rank fails, with its traceback.
        TimeoutError: Naming the ranks that have no result in time.
    """
    job = _Job(
        module=fn.__module__,
        file=inspect.getfile(fn),
        function=fn.__qualname__,
        pickled_args=pickle.dumps(args),
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        _started(num_ranks, job, Path(folder) / "rendezvous", timeout_s) as connections,
    ):
        return _collect(connections, timeout_s, may_die)


def random_columns(lengths: Sequence[int], generator: torch.Generator) -> Columns:
    """Return a column of each kind and of many dtypes, with random bits (NaNs included).

    Rows have 0 to 3 turns.
    """
    num_tokens = sum(lengths)
    turns = torch.randint(4, (len(lengths),), generator=generator)
    return Columns(
        lengths=torch.tensor(lengths, dtype=torch.int64),
        per_token={f"token_{d}": _random_bits(num_tokens, d, generator) for d in _DTYPES},
        per_row={f"row_{d}": _random_bits(len(lengths), d, generator) for d in _DTYPES},
        turns=turns,
        per_turn={f"turn_{d}": _random_bits(int(turns.sum()), d, generator) for d in _DTYPES},
    )


def random_problem(seed: int, *, max_ranks: int = 20) -> tuple[Columns, Layout, Layout, Hosts]:
    """Return a batch, where it is, where it is needed, and hosts, all drawn from a seed.

    Layouts have replicas and chunks, and may leave ranks out; there may be no rows.

    Args:
        seed: Of everything.
        max_ranks: Most ranks that take part.
    """
    rng = random.Random(seed)
    lengths = [rng.randint(0, 9) for _ in range(rng.randint(0, 8))]
    batch = random_columns(lengths, torch.Generator().manual_seed(seed))
    source, target = (_random_layout(rng, len(lengths), max_ranks) for _ in range(2))
    num_ranks = max(source.num_ranks, target.num_ranks)
    return batch, source, target, Hosts(of=tuple(rng.randrange(3) for _ in range(num_ranks)))


def _random_layout(rng: random.Random, num_rows: int, max_ranks: int) -> Layout:
    shapes = [(c, r) for c in (1, 1, 2, 3) for r in (1, 1, 2) if c * r <= max_ranks]
    num_chunks, num_replicas = rng.choice(shapes)
    size = num_chunks * num_replicas
    num_groups = rng.randint(1, min(3, max_ranks // size))
    ranks = list(range(size * num_groups + rng.randint(0, min(2, max_ranks - size * num_groups))))
    rng.shuffle(ranks)
    groups = tuple(tuple(ranks[g * size : (g + 1) * size]) for g in range(num_groups))
    owners = tuple(rng.randrange(num_groups) for _ in range(num_rows))
    return Layout(owners=owners, groups=groups, num_chunks=num_chunks)


def chunk_of_columns(columns: Columns, layout: Layout, rank: int) -> Columns:
    """Return what a rank holds of a whole batch under a layout."""
    held = columns.select(layout.rows_of(rank))
    bounds = [
        chunk_bounds(length, layout.chunk_of(rank), layout.num_chunks)
        for length in held.lengths.tolist()
    ]
    starts = torch.tensor([start for start, _ in bounds], dtype=torch.int64)
    lengths = torch.tensor([stop - start for start, stop in bounds], dtype=torch.int64)
    tokens = spread(held.offsets() + starts, lengths)
    return replace(
        held,
        lengths=lengths,
        per_token={name: column[tokens] for name, column in held.per_token.items()},
    )


def assert_same_bits(actual: Columns, expected: Columns) -> None:
    """Assert that two columns are equal bit for bit, so that a NaN equals only itself."""
    assert actual.schema() == expected.schema()
    assert actual.lengths.tolist() == expected.lengths.tolist()
    assert actual.turn_counts().tolist() == expected.turn_counts().tolist()
    found_columns = {**actual.per_token, **actual.per_row, **actual.per_turn}
    for name, column in {**expected.per_token, **expected.per_row, **expected.per_turn}.items():
        found = found_columns[name]
        assert found.view(torch.uint8).equal(column.view(torch.uint8)), name


def _random_bits(size: int, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    if dtype == torch.bool:
        return torch.randint(2, (size,), generator=generator).bool()
    num_bytes = size * dtype.itemsize
    return torch.randint(256, (num_bytes,), generator=generator).to(torch.uint8).view(dtype)


@contextmanager
def _started(
    num_ranks: int, job: _Job, rendezvous: Path, timeout_s: float
) -> Generator[list[Connection], None, None]:
    # One server imports torch once and forks the ranks, none of which inherits a thread.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    processes: list[BaseProcess] = []
    connections: list[Connection] = []
    try:
        for rank in range(num_ranks):
            here, there = context.Pipe()
            connections.append(here)
            process = context.Process(
                target=_run_rank, args=(rank, num_ranks, job, rendezvous, timeout_s, there)
            )
            process.start()
            processes.append(process)
            there.close()
        yield connections
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
            process.close()
        for connection in connections:
            connection.close()


def _collect(
    connections: Sequence[Connection], timeout_s: float, may_die: Sequence[int]
) -> list[Any]:
    deadline_s = time.monotonic() + timeout_s
    results: dict[int, object] = {}
    while len(results) < len(connections):
        missing = {c: r for r, c in enumerate(connections) if r not in results}
        ready = wait(list(missing), timeout=max(0.0, deadline_s - time.monotonic()))
        if not ready:
            raise TimeoutError(f"no result in {timeout_s} s from rank {sorted(missing.values())}")
        for connection in ready:
            assert isinstance(connection, Connection)
            rank = missing[connection]
            results[rank] = _receive(rank, connection, may_die=rank in may_die)
    return [results[rank] for rank in range(len(connections))]


def _receive(rank: int, connection: Connection, *, may_die: bool) -> object:
    try:
        failure, result = pickle.loads(connection.recv_bytes())
    except (EOFError, ConnectionResetError):
        if may_die:
            return None
        raise RuntimeError(f"rank {rank} died without a result") from None
    if failure:
        raise RuntimeError(f"rank {rank} failed:\n{failure}")
    return result


def _run_rank(
    rank: int,
    num_ranks: int,
    job: _Job,
    rendezvous: Path,
    timeout_s: float,
    connection: Connection,
) -> None:
    """Run in the new process; it sends (traceback, result) and waits to be ended."""
    try:
        torch.set_num_threads(1)
        dist.init_process_group(
            "gloo",
            init_method=rendezvous.as_uri(),
            rank=rank,
            world_size=num_ranks,
            timeout=timedelta(seconds=timeout_s),
        )
        outcome = pickle.dumps(("", job.call()))
    except BaseException:  # noqa: BLE001 - the edge of the process: what is not sent is lost
        outcome = pickle.dumps((traceback.format_exc(), None))
    connection.send_bytes(outcome)
    # Leaving now would close sockets that slower ranks still read from.
    connection.poll(None)
