"""Memory of tensors, counted at each allocation of torch's own on the CPU."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from torch.profiler import ProfilerActivity, profile


def peak_bytes(run: Callable[[], object]) -> int:
    """Return the most memory that tensors took during a call, beyond what they did before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        run()
    assert profiled.profiler is not None
    results = profiled.profiler.kineto_results
    assert results is not None
    events: list[Any] = results.events()  # Any: its stub lacks what is read of it
    changes = [event for event in events if event.name() == "[memory]"]
    changes.sort(key=lambda event: event.start_ns())
    return max(accumulate((event.nbytes() for event in changes), initial=0))
