import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import Columns, Layout, RowSizes, TransferPlan, dispatch, plan_transfer
from earl_dispatch.link import Link
from earl_dispatch.testing import (
    assert_same_bits,
    chunk_of_columns,
    random_columns,
    random_problem,
    run_ranks,
)
from earl_dispatch.transports.ray_store import Mailbox, _Store

LENGTHS = (3, 0, 5, 1, 4, 2)
SOURCE = Layout(owners=(0, 0, 1, 1, 0, 1), groups=((2, 0), (1,)))
TARGET = Layout(owners=(1, 0, 0, 1, 1, 0), groups=((0, 1), (2,)))
ALONE = Layout(owners=(0,) * 6, groups=((0,),))
CHUNKED = Layout(owners=(0,) * 6, groups=((1, 2, 0),), num_chunks=3)
CPU = torch.device("cpu")
PAIRS = ((SOURCE, TARGET), (SOURCE, CHUNKED), (ALONE, TARGET))
TRANSPORTS = ("ray_store", "all_to_all", "gather_scatter", "pipelined")


def make_batch() -> Columns:
    return random_columns(LENGTHS, torch.Generator().manual_seed(3))


def make_plan(source: Layout, target: Layout) -> TransferPlan:
    return plan_transfer(source, target, sizes=RowSizes.of_columns(make_batch()))


def held_by(rank: int, source: Layout) -> Columns:
    """Return what a rank holds; one without rows knows no more than the schema."""
    held = chunk_of_columns(make_batch(), source, rank)
    return held if held.num_rows else Columns.empty(held.schema())


def dispatch_in_actor(rank: int, rendezvous: str) -> list[list[Columns]]:
    import ray

    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=rendezvous, rank=rank, world_size=3, timeout=timedelta(seconds=60)
    )
    received = [
        [
            dispatch(
                make_plan(source, target),
                held_by(rank, source),
                transport=transport,
                timeout_s=60.0,
            )
            for source, target in PAIRS
        ]
        for transport in TRANSPORTS
    ]
    for seed in range(12):
        batch, source, target, hosts = random_problem(seed, max_ranks=3)
        plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
        empty = Columns.empty(batch.schema())
        held = empty if rank >= plan.num_ranks else chunk_of_columns(batch, source, rank)
        held = held if held.num_rows else empty
        through_store, directly = (
            dispatch(plan, held, transport=transport, timeout_s=60.0)
            for transport in ("ray_store", "all_to_all")
        )
        assert_same_bits(through_store, directly)
    assert ray.is_initialized()
    dist.barrier()
    dist.destroy_process_group()
    return received


def dispatch_as_driver(address: str, environment: dict[str, str]) -> tuple[Columns, float, float]:
    """Attach a rank to a cluster by itself; return also the store's free and whole memory."""
    # Ranks may come from a server that was started before the cluster and its access token.
    os.environ.update(environment)
    import ray

    ray.init(address=address, log_to_driver=False)
    rank = dist.get_rank()
    held = chunk_of_columns(make_batch(), SOURCE, rank)
    received = dispatch(make_plan(SOURCE, TARGET), held, transport="ray_store", timeout_s=60.0)
    dist.barrier()
    deadline_s = time.monotonic() + 20.0
    while True:
        free, whole = (
            memory["object_store_memory"]
            for memory in (ray.available_resources(), ray.cluster_resources())
        )
        if free == whole or time.monotonic() > deadline_s:
            return received, free, whole
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster():
    """Start a cluster of this machine, and return its address."""
    ray = pytest.importorskip("ray")
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    source = str(Path(sys.modules["earl_dispatch"].__file__).parents[1])
    context = ray.init(
        address="local",
        num_cpus=3,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}},
    )
    try:
        yield context.address_info["gcs_address"]
    finally:
        ray.shutdown()
        ray.cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_actors_form_a_group_and_get_the_same_through_the_store_as_directly(cluster, tmp_path):
    import ray

    class Rank:
        def call(self, *args):
            return dispatch_in_actor(*args)

    actors = [ray.remote(num_cpus=1)(Rank).remote() for _ in range(3)]
    rendezvous = (tmp_path / "rendezvous").as_uri()
    calls = [actor.call.remote(rank, rendezvous) for rank, actor in enumerate(actors)]
    for rank, results in enumerate(ray.get(calls, timeout=300)):
        for received in results:
            for columns, (_, target) in zip(received, PAIRS, strict=True):
                assert_same_bits(columns, chunk_of_columns(make_batch(), target, rank))
    mailbox = ray.get_actor("earl_dispatch_mailbox", namespace="earl_dispatch")
    assert ray.get(mailbox.take.remote("any session", 0), timeout=60) == {}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_processes_that_attach_to_a_cluster_use_its_store_and_leave_nothing_in_it(cluster):
    environment = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    results = run_ranks(3, dispatch_as_driver, cluster, environment, timeout_s=120.0)
    for rank, (received, free, whole) in enumerate(results):
        assert_same_bits(received, chunk_of_columns(make_batch(), TARGET, rank))
        assert free == whole


def lose_a_rank_that_is_attached(address: str, environment: dict[str, str]) -> str:
    """Be killed as rank 1, once its rows are in the store, or say what the others hear of it."""
    os.environ.update(environment)
    import ray

    ray.init(address=address, log_to_driver=False)
    rank = dist.get_rank()
    if rank == 1:
        meet = _Store._meet

        def meet_and_die(store: _Store) -> None:
            meet(store)
            os.kill(os.getpid(), signal.SIGKILL)

        _Store._meet = meet_and_die
    held = held_by(rank, SOURCE)
    with pytest.raises(RuntimeError) as broken:
        dispatch(make_plan(SOURCE, TARGET), held, transport="ray_store", timeout_s=15.0)
    assert_same_bits(held, held_by(rank, SOURCE))
    return str(broken.value)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_rank_that_is_killed_is_named_by_the_others(cluster):
    environment = {name: value for name, value in os.environ.items() if name.startswith("RAY_")}
    messages = run_ranks(
        3, lose_a_rank_that_is_attached, cluster, environment, timeout_s=120.0, may_die=[1]
    )
    assert messages.pop(1) is None
    for message in messages:
        assert "no answer from rank 1;" in message


def dispatch_without_ray() -> str:
    held = chunk_of_columns(make_batch(), SOURCE, dist.get_rank())
    with pytest.raises(ValueError, match="ray") as refused:
        dispatch(make_plan(SOURCE, TARGET), held, transport="ray_store", timeout_s=20.0)
    return str(refused.value)


def test_ranks_without_ray_are_told_so_by_all():
    expected = "transport 'ray_store' needs ray.init in the process of every rank, rank 0 has none"
    assert run_ranks(3, dispatch_without_ray) == [expected] * 3


def test_letters_are_taken_once_and_forgotten_with_their_session():
    mailbox = Mailbox()
    mailbox.post("one", 0, {1: ["a"], 2: ["b"]})
    mailbox.post("one", 2, {1: ["c"]})
    mailbox.post("two", 0, {1: ["d"]})
    assert mailbox.take("one", 1) == {0: ["a"], 2: ["c"]}
    assert mailbox.take("one", 1) == {}
    mailbox.forget("one")
    assert mailbox.take("one", 2) == {}
    assert mailbox.take("two", 1) == {0: ["d"]}
    assert mailbox.take("three", 1) == {}


def ray_that_forgets_late() -> ModuleType:
    """Make what the transport uses of Ray, in this process; `forget` runs after the next `post`."""
    mailbox, late = Mailbox(), []

    def post(session: str, sender: int, letters: dict) -> None:
        mailbox.post(session, sender, letters)
        while late:
            mailbox.forget(late.pop())

    handle = SimpleNamespace(
        post=SimpleNamespace(remote=post),
        take=SimpleNamespace(remote=mailbox.take),
        forget=SimpleNamespace(remote=late.append),
    )
    actor = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda: handle))
    ray = ModuleType("ray")
    ray.remote = lambda _: actor
    ray.put = lambda array: array
    ray.get = lambda value, timeout: value
    ray.exceptions = SimpleNamespace(RayError=KeyError)
    return ray


def test_letters_are_not_forgotten_with_those_of_the_exchange_before():
    store = _Store(ray_that_forgets_late(), Link.open(None, timeout_s=5.0), "session", device=CPU)
    for value in (1, 2, 3):
        received = store.exchange({0: torch.tensor([value], dtype=torch.uint8)})
        assert {rank: buffer.tolist() for rank, buffer in received.items()} == {0: [value]}
