"""A Ray cluster on emulated hosts: one node on each, so that its object store uses their links."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from emulated_hosts import EmulatedHosts

PORT = 6379
ENVIRONMENT = {
    # Nobody else reaches the hosts' network.
    "RAY_AUTH_MODE": "disabled",
    # Below `uv run` Ray would start its workers in an environment that it builds anew.
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
"""What nodes, and processes that attach to them, have to be started with."""
_STORE_BYTES = 100_000_000
_STARTED = "Ray runtime started"
_START_TIMEOUT_S = 120.0
_END_TIMEOUT_S = 10.0
_POLL_S = 0.1
# A node gives up after 30 s, which many that start at a time would take on few cores.
_NUM_TOGETHER = 2


@contextmanager
def ray_cluster(hosts: EmulatedHosts) -> Generator[str, None, None]:
    """Start a node on every host, the head on host 0, and end them all, whatever happens between.

    Nodes have no CPUs to offer: nothing but what the processes that attach to them do, and one
    actor that takes none, runs on them.

    Returns:
        Address for `ray.init`.

    Raises:
        RuntimeError: If a node does not start, with what it wrote.
    """
    # Short, since paths of sockets are limited.
    folder = Path(tempfile.mkdtemp(prefix="earl-ray-"))
    address = f"{hosts.address(0)}:{PORT}"
    nodes: list[subprocess.Popen[bytes]] = []
    try:
        head = ["--head", f"--port={PORT}", "--include-dashboard=false", "--disable-usage-stats"]
        nodes.append(_start(hosts, 0, head, folder))
        _await_started(nodes, folder)
        join = [f"--address={address}"]
        for host in range(1, hosts.num_hosts):
            nodes.append(_start(hosts, host, join, folder))
            if host % _NUM_TOGETHER == 0:
                _await_started(nodes, folder)
        _await_started(nodes, folder)
        yield address
    finally:
        _end(nodes)
        shutil.rmtree(folder, ignore_errors=True)


def _start(
    hosts: EmulatedHosts, host: int, role: Sequence[str], folder: Path
) -> subprocess.Popen[bytes]:
    words = [
        "ip", "netns", "exec", hosts.namespace(host),
        str(Path(sys.executable).with_name("ray")), "start", *role, "--block",
        f"--node-ip-address={hosts.address(host)}", f"--temp-dir={folder / str(host)}",
        "--num-cpus=0", f"--object-store-memory={_STORE_BYTES}",
        "--include-log-monitor=false",
    ]  # fmt: skip
    with _log(folder, host).open("wb") as log:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **ENVIRONMENT},
        )


def _await_started(nodes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    deadline_s = time.monotonic() + _START_TIMEOUT_S
    for host, node in enumerate(nodes):
        while _STARTED not in (said := _log(folder, host).read_text()):
            if node.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the Ray node of host {host} has not started: {said[-2000:]}")
            time.sleep(_POLL_S)


def _log(folder: Path, host: int) -> Path:
    return folder / f"{host}.log"


def _end(nodes: Sequence[subprocess.Popen[bytes]]) -> None:
    """End nodes and everything that they have started."""
    processes: list[psutil.Process] = []
    for node in nodes:
        with suppress(psutil.NoSuchProcess):
            processes += psutil.Process(node.pid).children(recursive=True)
    for node in nodes:
        node.kill()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=_END_TIMEOUT_S)
    for node in nodes:
        node.wait(_END_TIMEOUT_S)
