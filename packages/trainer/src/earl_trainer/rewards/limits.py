"""What a reward function may use, and how its process is bound to it."""

import math
import resource
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardLimits:
    """Limits of one job; those of processor and memory hold for each process that it starts, too.

    The clock is watched from outside, everything else by the kernel (man 2 setrlimit).
    """

    wall_s: float | int = 10.0
    cpu_s: int = 10
    """Of the processor, whose limits are whole seconds."""
    memory_bytes: int = 4 * 1024**3
    """Address space: interpreter and imported modules count, too."""
    output_bytes: int = 16 * 1024**2
    """Longest file that it writes; what it prints is one."""

    def __post_init__(self) -> None:
        for name in ("wall_s", "cpu_s", "memory_bytes", "output_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be > 0, got {getattr(self, name)}")

    def bind_memory(self) -> None:
        """Bind this process to the memory that it may have, before it imports what it runs."""
        _lower(resource.RLIMIT_AS, self.memory_bytes)
        # The picture of a process that was killed is of use to nobody.
        _lower(resource.RLIMIT_CORE, 0)

    def bind_output(self) -> None:
        """Bind this process to the output that it may have, once its imports are cached on disk."""
        _lower(resource.RLIMIT_FSIZE, self.output_bytes)

    def bind_job(self) -> None:
        """Let this process have its time of the processor anew, counted from now."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        soft = math.ceil(used.ru_utime + used.ru_stime + self.cpu_s)
        # The upper limit stays: who has lowered it cannot raise it again for the next job.
        resource.setrlimit(resource.RLIMIT_CPU, (_least(soft, hard), hard))


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    limit = _least(value, hard)
    resource.setrlimit(kind, (limit, limit))


def _least(value: int, hard: int) -> int:
    return value if hard == resource.RLIM_INFINITY else min(value, hard)
