import pytest
from earl_selector import ContextReport


def test_mean_context_above_the_longest_is_refused():
    with pytest.raises(ValueError, match=r"got 11\.0 and 10"):
        ContextReport(
            step=0,
            num_responses=2,
            mean_context_tokens=11.0,
            max_context_tokens=10,
            resident_tokens=20,
        )


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="resident_tokens=-1"):
        ContextReport(
            step=0,
            num_responses=2,
            mean_context_tokens=1.0,
            max_context_tokens=10,
            resident_tokens=-1,
        )


def test_negative_seconds_are_refused():
    with pytest.raises(ValueError, match=r"switch_s=-1\.0"):
        ContextReport(
            step=0,
            num_responses=2,
            mean_context_tokens=1.0,
            max_context_tokens=10,
            resident_tokens=20,
            rollout_s=1.0,
            switch_s=-1.0,
        )
