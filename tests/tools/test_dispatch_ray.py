"""Ray nodes on emulated hosts."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil
import pytest

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("tc"), reason="needs root and iproute2"
)


@pytest.fixture
def tool(load_tool):
    pytest.importorskip("ray")
    return load_tool("dispatch_ray")


@pytest.fixture
def hosts(load_tool):
    with load_tool("emulated_hosts").emulated_hosts(2, bits_per_s=80_000_000) as hosts:
        yield hosts


def what_is_left_of_ray():
    """Return folders, and commands of processes that this one has started."""
    commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
    folders = map(str, Path(tempfile.gettempdir()).glob("earl-ray-*"))
    return [*folders, *(c for c in commands if "ray" in c and "forkserver" not in c)]


@needs_root
@pytest.mark.slow
def test_ranks_dispatch_through_the_store_over_their_links_and_nothing_stays(
    tool, hosts, load_tool
):
    ranks_tool = load_tool("dispatch_ranks")
    batch = ranks_tool.Batch(num_hosts=2, tokens_per_row=2048)
    with tool.ray_cluster(hosts) as address, ranks_tool.started_ranks(hosts) as ranks:
        assert address == "10.77.0.2:6379"
        assert any("raylet" in left for left in what_is_left_of_ray())
        ranks.attach(address)
        done = ranks.dispatch(batch, "ray_store")
    assert done.digests == batch.expected_digests
    # Half of the rows come to the controller, and as many leave it.
    assert done.received[0].payload_bytes > batch.total_bytes / 2
    assert done.sent[0].payload_bytes > batch.total_bytes / 2
    assert what_is_left_of_ray() == []


@needs_root
@pytest.mark.slow
def test_a_node_that_does_not_start_is_said_with_what_it_wrote(tool, hosts, monkeypatch):
    monkeypatch.setattr(tool, "_STORE_BYTES", 1)
    with (
        pytest.raises(
            RuntimeError, match=r"(?s)Ray node of host 0 has not started.*minimum allowed"
        ),
        tool.ray_cluster(hosts),
    ):
        pass
    assert what_is_left_of_ray() == []
