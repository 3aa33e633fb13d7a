"""Ranks as Ray actors: starting them, calling them in time, and seeing to it that they end."""

import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final, runtime_checkable

from earl_trainer.types import RunFailedError

# Ray would start its workers through `uv run`, in an environment that it builds anew.
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
# Ranks are what a run waits for: a cluster that is started here does not run them in the back seat.
os.environ.setdefault("RAY_worker_niceness", "0")
import ray
from ray.exceptions import RayActorError, RayError, RayTaskError

# Calls of this group are heard while a rank is busy with another.
_CONTROL = "control"
_HEARD = {"concurrency_group": _CONTROL}
_OBJECT_STORE_BYTES = 128 * 1024**2
_START_TIMEOUT_S = 180.0
_CLOSE_TIMEOUT_S = 20.0
_CONNECT_TIMEOUT_S = 10.0


class LostRankError(RunFailedError):
    """A rank is gone, or has not answered in time."""


@runtime_checkable
class Rank(Protocol):
    """What runs in a process of its own, besides the methods that it is called for."""

    def connect(self, init_method: str) -> None:
        """Meet the others."""
        ...

    def interrupt(self) -> None:
        """Hear, from another thread, that what is running is to stop."""
        ...


class _Actor:
    """A rank's process."""

    def __init__(self, make: Callable[[int], Rank], rank: int) -> None:
        self._rank = make(rank)

    def call(self, method: str, *args: Any) -> Any:  # noqa: ANN401 - whatever the method takes
        return getattr(self._rank, method)(*args)

    def interrupt(self) -> None:
        self._rank.interrupt()

    def pid(self) -> int:
        return os.getpid()

    def find_address(self) -> str:
        """Return where rank 0 can be met: a free port of its host."""
        host = ray.util.get_node_ip_address()
        with socket.socket() as probe:
            probe.bind((host, 0))
            return f"tcp://{host}:{probe.getsockname()[1]}"


@final
class RayRanks:
    """Ranks that run as actors of a Ray cluster, seen from the process that calls them.

    Lifecycle: made, then called, then `close`, which ends them all and the cluster if it was
    started here. After a `LostRankError` nothing but `close` makes sense.

    Args:
        num_ranks: How many.
        make_rank: Makes the rank of a number, in its own process.
        address: Of a running Ray cluster; empty starts one on this machine.
        shared_bytes: The most that is shared between calls, for a cluster that is started here.

    Raises:
        LostRankError: If the cluster is too small for the ranks, or they do not start in time.
    """

    def __init__(
        self,
        num_ranks: int,
        make_rank: Callable[[int], Rank],
        *,
        address: str = "",
        shared_bytes: int = 0,
    ) -> None:
        self._num_ranks = num_ranks
        self._owns_cluster = join_cluster(
            address, num_cpus=num_ranks, store_bytes=_OBJECT_STORE_BYTES + shared_bytes
        )
        self._actors: list[Any] = []
        try:
            num_gpus = share_gpus(ray.cluster_resources(), num_ranks)
            options: dict[str, Any] = {
                "num_cpus": 1,
                "num_gpus": num_gpus,
                "concurrency_groups": {_CONTROL: 1},
            }
            actor: Any = ray.remote(**options)(_Actor)  # Any: its methods gain `remote`.
            self._actors = [actor.remote(make_rank, rank) for rank in range(num_ranks)]
            address_of_first = self._gather(
                [self._actors[0].find_address.options(**_HEARD).remote()],
                timeout_s=_START_TIMEOUT_S,
            )[0]
            everyone = range(num_ranks)
            self.call(everyone, "connect", address_of_first, timeout_s=_START_TIMEOUT_S)
        except BaseException:
            self.close()
            raise

    def call(
        self,
        ranks: Sequence[int],
        method: str,
        *args: Any,  # noqa: ANN401 - whatever the method takes
        timeout_s: float,
    ) -> list[Any]:  # Any: whatever the method returns
        """Call a method on some ranks with the same arguments.

        Raises:
            LostRankError: If a rank is gone or does not answer in time.
            ValueError: What a rank refuses.
        """
        return self.call_each(dict.fromkeys(ranks, args), method, timeout_s=timeout_s)

    def call_each(
        self,
        args: Mapping[int, Sequence[Any]],
        method: str,
        *,
        timeout_s: float,
    ) -> list[Any]:  # Any: whatever the method returns
        """Call a method on some ranks, each with arguments of its own; see `call`."""
        references = [self._actors[rank].call.remote(method, *own) for rank, own in args.items()]
        return self._gather(references, timeout_s=timeout_s)

    def share(self, value: object) -> object:
        """Put a value where all ranks can read it, as an argument of several calls."""
        return ray.put(value)

    def pids(self) -> list[int]:
        """Return the ranks' processes."""
        references = [actor.pid.options(**_HEARD).remote() for actor in self._actors]
        return self._gather(references, timeout_s=_CLOSE_TIMEOUT_S)

    def interrupt(self) -> None:
        """Make what the ranks generate stop at the next token."""
        references = [actor.interrupt.options(**_HEARD).remote() for actor in self._actors]
        self._gather(references, timeout_s=_CLOSE_TIMEOUT_S)

    def close(self) -> None:
        """End all ranks, and the cluster if it is theirs."""
        actors, self._actors = self._actors, []
        try:
            for actor in actors:
                ray.kill(actor)
        finally:
            if self._owns_cluster:
                ray.shutdown()
                self._owns_cluster = False

    def _gather(self, references: Sequence[Any], *, timeout_s: float) -> list[Any]:
        """Return all answers; the first failure is raised at once, whoever else still waits."""
        deadline_s, waiting = time.monotonic() + timeout_s, list(references)
        try:
            while waiting:
                left_s = deadline_s - time.monotonic()
                ready, waiting = ray.wait(waiting, timeout=max(0.0, left_s))
                if not ready:
                    raise LostRankError(
                        f"{len(waiting)} of {self._num_ranks} ranks have not answered within "
                        f"{timeout_s:g} s"
                    )
                ray.get(ready, timeout=timeout_s)
            return ray.get(list(references), timeout=timeout_s)
        except RayTaskError as error:
            if isinstance(error.cause, ValueError):
                raise error.cause from None
            raise LostRankError(f"a rank failed: {_last_line(error)}") from error
        except RayActorError as error:
            raise LostRankError("a rank is gone: its process has ended") from error
        except RayError as error:
            raise LostRankError(f"Ray fails: {_last_line(error)}") from error


def join_cluster(address: str, *, num_cpus: int, store_bytes: int) -> bool:
    """Connect to Ray unless this process already is; return whether a cluster was started for it.

    Raises:
        LostRankError: If there is none at the address, or none can be started.
    """
    if ray.is_initialized():
        return False
    _require_listener(address)
    try:
        if address:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
            return False
        ray.init(
            num_cpus=num_cpus,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
            object_store_memory=store_bytes,
        )
    except Exception as error:  # Ray says by a bare one that its own processes do not come up.
        raise LostRankError(f"Ray does not start: {_last_line(error)}") from error
    return True


def share_gpus(resources: Mapping[str, float], num_ranks: int) -> int:
    """Return how many GPUs each rank gets: one where there are enough, else none.

    Args:
        resources: Of the whole cluster, in use or not.
        num_ranks: Each of which takes a CPU.

    Raises:
        LostRankError: If there are not enough CPUs, for which actors would wait.
    """
    num_cpus, num_gpus = (int(resources.get(name, 0)) for name in ("CPU", "GPU"))
    if num_cpus < num_ranks:
        raise LostRankError(
            f"{num_ranks} ranks take a CPU each, and the Ray cluster has {num_cpus} CPUs and "
            f"{num_gpus} GPUs in all"
        )
    return int(num_gpus >= num_ranks)


def _require_listener(address: str) -> None:
    """Refuse an address where nobody listens, which Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdigit()) or "://" in address:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise LostRankError(f"no Ray cluster answers at {address}: {error.strerror}") from error


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
