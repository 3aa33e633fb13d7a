"""Hosts made of network namespaces: their links' rates, their counters, and that they go away."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

BITS_PER_S = 8_000_000


def can_make_hosts() -> bool:
    if os.geteuid() or not shutil.which("ip") or not shutil.which("tc"):
        return False
    name = f"earl-probe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
    return made.returncode == 0


needs_root = pytest.mark.skipif(not can_make_hosts(), reason="needs root and iproute2")


@pytest.fixture
def emulated(load_tool):
    return load_tool("emulated_hosts")


def namespaces_of_this_process():
    folder = Path("/run/netns")
    if not folder.exists():
        return []
    return [p.name for p in folder.iterdir() if p.name.startswith(f"earl{os.getpid()}-")]


@needs_root
def test_a_copy_takes_the_rate_of_the_link_in_both_directions_and_is_counted(emulated):
    num_bytes = 500_000
    with emulated.emulated_hosts(3, bits_per_s=BITS_PER_S) as hosts:
        before = hosts.traffic()
        rates = emulated.copy_rates(hosts, 0, 2, num_bytes=num_bytes)
        time.sleep(0.3)
        links = [
            [now.since(then) for then, now in zip(*pair, strict=True)]
            for pair in zip(before, hosts.traffic(), strict=True)
        ]
    # One bucket of bytes passes at once, and headers take 66 bytes of a packet of 3014.
    for rate in rates:
        assert 0.85 * hosts.bytes_per_s < rate < 1.05 * hosts.bytes_per_s
    for host in (0, 2):
        for traffic in links[host]:
            # Packets that ask for addresses are smaller than what is subtracted for them.
            assert 0.99 * num_bytes < traffic.payload_bytes < 1.05 * num_bytes
            assert traffic.num_bytes > traffic.payload_bytes
    assert all(traffic.num_bytes < 1000 for traffic in links[1])


def make_hosts_and_stop(emulated):
    with emulated.emulated_hosts(2, bits_per_s=BITS_PER_S):
        assert len(namespaces_of_this_process()) == 3
        raise KeyboardInterrupt


@needs_root
def test_hosts_are_taken_down_whatever_happens(emulated):
    with pytest.raises(KeyboardInterrupt):
        make_hosts_and_stop(emulated)
    assert namespaces_of_this_process() == []


@needs_root
def test_hosts_that_cannot_be_made_leave_nothing_behind(emulated, monkeypatch):
    monkeypatch.setattr(emulated, "MTU_BYTES", 1 << 20)
    with (
        pytest.raises(RuntimeError, match=r"ip link add .* failed: .*Invalid argument"),
        emulated.emulated_hosts(2, bits_per_s=BITS_PER_S),
    ):
        pass
    assert namespaces_of_this_process() == []


@pytest.mark.parametrize(("num_hosts", "bits_per_s"), [(0, 1), (251, 1), (1, 0)])
def test_impossible_hosts_are_refused(emulated, num_hosts, bits_per_s):
    with (
        pytest.raises(ValueError, match=f"got {num_hosts} and {bits_per_s}"),
        emulated.emulated_hosts(num_hosts, bits_per_s=bits_per_s),
    ):
        pass


def test_payload_is_what_headers_leave(emulated):
    earlier = emulated.Traffic(num_bytes=1000, num_packets=2)
    now = emulated.Traffic(num_bytes=4080, num_packets=5)
    assert now.since(earlier).payload_bytes == 3080 - 3 * 66
