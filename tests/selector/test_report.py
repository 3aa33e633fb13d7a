from dataclasses import replace

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


def test_average_load_shares_the_tokens_out_and_is_never_empty():
    report = ContextReport(
        step=0,
        num_responses=3,
        mean_context_tokens=2.0,
        max_context_tokens=4,
        resident_tokens=7,
    )
    assert report.average_load == (3, 3)
    assert replace(report, num_responses=0, resident_tokens=0).average_load == (1, 1)
