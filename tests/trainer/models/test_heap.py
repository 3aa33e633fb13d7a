"""What was freed goes back to the system."""

import psutil
import torch
from earl_trainer.models.heap import give_back_heap


def test_pages_between_tensors_that_stay_are_given_back():
    process = psutil.Process()
    # Small enough for the heap; every other one stays, so that it cannot shrink at its end.
    tensors = [torch.ones(16_000) for _ in range(2_000)]
    held_bytes = process.memory_info().rss
    kept = tensors[::2]
    del tensors
    give_back_heap()
    assert process.memory_info().rss < held_bytes - 30_000_000
    assert len(kept) == 1_000
