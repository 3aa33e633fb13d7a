"""A process is bound by the kernel, and what it has used before counts in no job."""

import resource
import subprocess
import sys

import pytest
from earl_trainer.rewards.limits import RewardLimits

IN_A_PROCESS = """
import resource, time
from earl_trainer.rewards.limits import RewardLimits
limits = RewardLimits(cpu_s=3, memory_bytes=2**31, output_bytes=12345)
limits.bind_memory(); limits.bind_output(); limits.bind_job()
before = resource.getrlimit(resource.RLIMIT_CPU)[0]
while time.process_time() < before - 3 + 0.1: sum(range(100_000))
limits.bind_job()
print(resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_FSIZE))
print(resource.getrlimit(resource.RLIMIT_CPU)[0] - before >= 1)
bounded = RewardLimits(memory_bytes=2**40)
bounded.bind_memory()
print(resource.getrlimit(resource.RLIMIT_AS))
"""


def test_limits_bind_the_process_and_the_processor_anew_for_every_job():
    ran = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS], capture_output=True, text=True, timeout=60
    )
    bound, anew, lower = ran.stdout.splitlines()
    assert bound == f"({2**31}, {2**31}) (12345, 12345)", ran.stderr
    assert anew == "True"
    # A limit that the user has set for the whole run is kept.
    assert lower == f"({2**31}, {2**31})"


def test_this_process_is_not_bound():
    RewardLimits()
    assert resource.getrlimit(resource.RLIMIT_CORE)[1] != 1
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


@pytest.mark.parametrize("name", ["wall_s", "cpu_s", "memory_bytes", "output_bytes"])
def test_a_limit_of_nothing_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be > 0, got 0"):
        RewardLimits(**{name: 0})
