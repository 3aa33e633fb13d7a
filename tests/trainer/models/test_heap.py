"""What was freed goes back to the system."""

import psutil
import torch
from earl_trainer.models.heap import HeapTrimmer, resident_bytes


def leave_holes() -> list[torch.Tensor]:
    """Free half of some tensors, small enough for the heap, which cannot shrink at its end."""
    tensors = [torch.ones(16_000) for _ in range(2_000)]
    return tensors[::2]


def test_pages_between_tensors_that_stay_are_given_back():
    kept = leave_holes()
    held_bytes = resident_bytes()
    HeapTrimmer(slack_bytes=0).give_back()
    assert resident_bytes() < held_bytes - 30_000_000
    assert len(kept) == 1_000


def test_nothing_is_given_back_before_the_process_has_grown_by_the_slack():
    trimmer = HeapTrimmer(slack_bytes=160_000_000)
    trimmer.give_back()
    kept = leave_holes()
    held_bytes = resident_bytes()
    trimmer.give_back()
    assert resident_bytes() > held_bytes - 1_000_000, "it grew by 128 MB"
    more = leave_holes()
    held_bytes = resident_bytes()
    trimmer.give_back()
    assert resident_bytes() < held_bytes - 30_000_000
    assert len(kept) == len(more) == 1_000


def test_resident_memory_is_what_others_see_of_it():
    assert abs(resident_bytes() - psutil.Process().memory_info().rss) < 50_000_000
