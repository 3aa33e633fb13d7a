import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from earl_trainer.rollout.process_tree import ProcessTree

HELD_BYTES = 64 * 1024**2
CHILD = f"held = b'x' * {HELD_BYTES}; print(flush=True); import time; time.sleep(600)"
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
OWNER = """
import sys, time
from earl_trainer.rollout.process_tree import ProcessTree
tree = ProcessTree([])
tree.watch([int(sys.argv[1])])
print(flush=True)
time.sleep(600)
"""


@pytest.fixture
def family():
    """A process, and the pid of a child of it that holds 64 MiB."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        yield parent, int(parent.stdout.readline())
        parent.kill()


@pytest.fixture
def tree(family):
    tree = ProcessTree([family[0].pid])
    yield tree
    tree.end(timeout_s=10)


def runs(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


def test_holds_roots_and_all_below_them_with_their_memory(family, tree):
    parent, child_pid = family
    assert tree.pids == [parent.pid, child_pid]
    assert HELD_BYTES < tree.held_bytes() < 2 * HELD_BYTES


def test_what_is_started_later_is_taken_in_and_guarded(family):
    parent, child_pid = family
    tree = ProcessTree()
    assert (tree.pids, tree.held_bytes()) == ([], 0)
    tree.watch([child_pid])
    assert tree.pids == [child_pid]
    tree.watch([parent.pid])
    assert sorted(tree.pids) == sorted([child_pid, parent.pid])
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as other:
        tree.watch([other.pid])
        tree.end(timeout_s=10)
        assert tree.pids == []


def test_after_the_end_nothing_is_held_although_nobody_reaped_the_root(tree):
    tree.end(timeout_s=10)
    assert (tree.pids, tree.held_bytes()) == ([], 0)
    tree.end(timeout_s=10)


def test_a_process_that_is_gone_is_no_error(family, tree):
    parent, child_pid = family
    tree.end(timeout_s=10)
    parent.wait(10)
    assert tree.held_bytes() == 0
    late = ProcessTree([parent.pid, child_pid])
    assert late.pids == []
    late.end(timeout_s=10)


def test_they_do_not_outlive_their_owner_however_it_dies(family):
    parent, child_pid = family
    command = [sys.executable, "-c", OWNER, str(parent.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
        owner.stdout.readline()
        assert runs(parent.pid)
        owner.send_signal(signal.SIGKILL)
        owner.wait(10)
    end_s = time.monotonic() + 10
    while (runs(parent.pid) or runs(child_pid)) and time.monotonic() < end_s:
        time.sleep(0.05)
    assert not runs(parent.pid)
    assert not runs(child_pid)
