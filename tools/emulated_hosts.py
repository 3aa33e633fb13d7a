"""Hosts on one machine: network namespaces joined by a switch, every link limited in its rate.

Each host has one full-duplex link to a switch that does not block. Both directions of a link are
token buckets (tc-tbf(8)): what a host sends is limited on its own end, what it receives on the
switch's, where it queues. The switch forwards by address rather than as a bridge: what crosses a
bridge stays on the account of the socket that sent it, which Linux lets have two packets under way
(TCP small queues), so that no queue forms where hosts send to one. Needs root and iproute2.
"""

import ctypes
import json
import os
import socket
import subprocess
import time
from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

INTERFACE = "eth0"
MTU_BYTES = 9000
HEADER_BYTES = 66
"""Ethernet (14), IPv4 (20) and TCP with timestamps (32) of one packet."""
_NAMESPACES = Path("/run/netns")
_CLONE_NEWNET = 0x40000000
_BURST_BYTES = 2 * MTU_BYTES
# A switch that drops nothing: what the windows below let be under way fits its queue.
_QUEUE_BYTES = 8 << 20
_WINDOW_BYTES = 1 << 16
_CHUNK_BYTES = 1 << 16
_COMMAND_TIMEOUT_S = 30.0
# Queues are as much longer in time as the links are slower than real ones: what waits in them would
# be taken for lost by TCP's 0.2 s.
_RTO_MIN = "5s"
_SETTINGS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv4/ip_forward": "1",
    "net/ipv4/tcp_congestion_control": "reno",
    # Nor is what ends a message sent twice because its answer takes long.
    "net/ipv4/tcp_early_retrans": "0",
    "net/ipv4/tcp_rmem": f"4096 {_WINDOW_BYTES} {_WINDOW_BYTES}",
    "net/ipv4/tcp_wmem": f"4096 {_WINDOW_BYTES} {_WINDOW_BYTES}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What went over one direction of a link."""

    num_bytes: int
    num_packets: int

    @property
    def payload_bytes(self) -> int:
        """Bytes without the headers of Ethernet, IP and TCP."""
        return self.num_bytes - HEADER_BYTES * self.num_packets

    def since(self, earlier: "Traffic") -> "Traffic":
        """Return what was added after an earlier reading."""
        return Traffic(
            num_bytes=self.num_bytes - earlier.num_bytes,
            num_packets=self.num_packets - earlier.num_packets,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedHosts:
    """Hosts 0, 1, ... of equal links."""

    prefix: str
    """Begins the names of all interfaces and namespaces of these hosts."""
    num_hosts: int
    bits_per_s: int
    """Rate of each direction of each link."""

    @property
    def bytes_per_s(self) -> float:
        """Rate of each direction of each link, headers included."""
        return self.bits_per_s / 8

    @property
    def switch(self) -> str:
        """Name the network namespace that all links lead to."""
        return f"{self.prefix}-switch"

    def namespace(self, host: int) -> str:
        """Name a host's network namespace."""
        return f"{self.prefix}-{host}"

    def address(self, host: int) -> str:
        """Return a host's IPv4 address."""
        return f"10.77.{host}.2"

    def enter(self, host: int) -> None:
        """Move the calling thread to a host; sockets it opens from now on are the host's."""
        # os.setns is new in Python 3.12.
        libc = ctypes.CDLL(None, use_errno=True)
        with (_NAMESPACES / self.namespace(host)).open() as file:
            if libc.setns(file.fileno(), _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), f"cannot enter host {host}")

    def traffic(self) -> list[tuple[Traffic, Traffic]]:
        """Read the counters of every host's link: sent, received."""
        links = {
            link["ifname"]: link["stats64"]
            for link in json.loads(_command("ip", "-n", self.switch, "-s", "-j", "link"))
        }
        # The switch receives what a host sends.
        return [
            (_traffic(links[f"port{host}"]["rx"]), _traffic(links[f"port{host}"]["tx"]))
            for host in range(self.num_hosts)
        ]


@contextmanager
def emulated_hosts(num_hosts: int, *, bits_per_s: int) -> Generator[EmulatedHosts, None, None]:
    """Build hosts and take them down again, whatever happens in between.

    Args:
        num_hosts: Number of hosts, at most 250.
        bits_per_s: Rate of each direction of each link.

    Raises:
        ValueError: If a number is out of range.
        RuntimeError: If a command fails, with what it wrote.
    """
    if not 1 <= num_hosts <= 250 or bits_per_s < 1:
        raise ValueError(
            f"hosts need 1 <= num_hosts <= 250 and bits_per_s >= 1, got {num_hosts} and "
            f"{bits_per_s}"
        )
    hosts = EmulatedHosts(prefix=f"earl{os.getpid()}", num_hosts=num_hosts, bits_per_s=bits_per_s)
    namespaces = [hosts.switch, *(hosts.namespace(host) for host in range(num_hosts))]
    try:
        for name in namespaces:
            _command("ip", "netns", "add", name)
            _set(name, _SETTINGS)
        for host in range(num_hosts):
            _connect(hosts, host)
        yield hosts
    finally:
        for name in namespaces:
            if (_NAMESPACES / name).exists():
                # Links go away with their namespaces.
                _command("ip", "netns", "delete", name)


def _traffic(counters: Mapping[str, int]) -> Traffic:
    return Traffic(num_bytes=counters["bytes"], num_packets=counters["packets"])


def copy_rates(
    hosts: EmulatedHosts, one: int, other: int, *, num_bytes: int, timeout_s: float = 60.0
) -> tuple[float, float]:
    """Copy bytes over plain TCP both ways between two hosts at the same time.

    Returns:
        Bytes per second that each of the two received, headers not counted.
    """
    pair = (one, other)
    # Every thread enters the host it works on.
    with ThreadPoolExecutor(max_workers=4) as pool, ExitStack() as stack:
        listeners = [
            stack.enter_context(pool.submit(_listen, hosts, host, timeout_s).result())
            for host in pair
        ]
        received = [pool.submit(_receive, listener, timeout_s) for listener in listeners]
        sent = [
            pool.submit(_send, hosts, sender, listener.getsockname(), num_bytes)
            for sender, listener in zip(reversed(pair), listeners, strict=True)
        ]
        for future in sent:
            future.result(timeout_s)
        rates = [future.result(timeout_s) for future in received]
    return rates[0], rates[1]


def _listen(hosts: EmulatedHosts, host: int, timeout_s: float) -> socket.socket:
    hosts.enter(host)
    listener = socket.create_server((hosts.address(host), 0))
    listener.settimeout(timeout_s)
    return listener


def _send(hosts: EmulatedHosts, host: int, address: tuple[str, int], num_bytes: int) -> None:
    hosts.enter(host)
    with socket.create_connection(address, timeout=_COMMAND_TIMEOUT_S) as connection:
        connection.sendall(bytes(num_bytes))


def _receive(listener: socket.socket, timeout_s: float) -> float:
    """Return the rate from the first byte to the last."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(timeout_s)
        num_bytes = len(connection.recv(_CHUNK_BYTES))
        start_s, first = time.monotonic(), num_bytes
        while chunk := connection.recv(_CHUNK_BYTES):
            num_bytes += len(chunk)
        return (num_bytes - first) / (time.monotonic() - start_s)


def _connect(hosts: EmulatedHosts, host: int) -> None:
    name, port, address = hosts.namespace(host), f"port{host}", hosts.address(host)
    gateway = f"{address.rpartition('.')[0]}.1"
    shape = ("mtu", str(MTU_BYTES), "gso_max_segs", "1")
    _command(
        "ip", "link", "add", port, *shape, "netns", hosts.switch, "type", "veth",
        "peer", "name", INTERFACE, *shape, "netns", name,
    )  # fmt: skip
    for namespace, interface, own in ((hosts.switch, port, gateway), (name, INTERFACE, address)):
        inside = ("-n", namespace)
        _command("ip", *inside, "address", "add", f"{own}/24", "dev", interface)
        _command("ip", *inside, "link", "set", interface, "up")
        _command(
            "tc", *inside, "qdisc", "add", "dev", interface, "root", "tbf", "rate",
            f"{hosts.bits_per_s}bit", "burst", str(_BURST_BYTES), "limit", str(_QUEUE_BYTES),
        )  # fmt: skip
    _command("ip", "-n", name, "link", "set", "lo", "up")
    _command(
        "ip", "-n", name, "route", "add", "default", "via", gateway, "rto_min", _RTO_MIN
    )  # fmt: skip


def _set(namespace: str, settings: Mapping[str, str]) -> None:
    words = [f"{name}={value}" for name, value in settings.items()]
    _command("ip", "netns", "exec", namespace, "sysctl", "-qw", *words)


def _command(*words: str) -> str:
    """Return what a command writes."""
    done = subprocess.run(
        words, check=False, capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {(done.stderr or done.stdout).strip()}")
    return done.stdout
