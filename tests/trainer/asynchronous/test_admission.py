import pytest
from earl_trainer.asynchronous.admission import GroupCounts, num_admissible
from hypothesis import given, settings
from hypothesis import strategies as st


def counts(running=0, accepted=0, dropped=0):
    return GroupCounts(
        submitted=running + accepted,
        running=running,
        accepted=accepted,
        queued=accepted - dropped,
        dropped=dropped,
    )


@settings(deadline=None)
@given(
    batch=st.integers(1, 20),
    eta=st.integers(0, 10),
    version=st.integers(0, 50),
    started=st.integers(0, 2000),
)
def test_a_group_may_start_exactly_while_the_papers_inequality_holds(batch, eta, version, started):
    room = num_admissible(
        counts(running=started), version=version, batch_groups=batch, max_staleness=eta
    )
    allowed = [n for n in range(started + 1, started + 1500) if (n - 1) // batch <= version + eta]
    assert room == len(allowed)


def test_what_was_dropped_gives_its_place_back_and_what_was_rejected_never_took_one():
    given_back = counts(running=2, accepted=6, dropped=3)
    assert num_admissible(given_back, version=0, batch_groups=4, max_staleness=1) == 8 - (2 + 6 - 3)


def test_the_tighter_of_both_bounds_holds():
    assert num_admissible(
        counts(running=3), version=5, batch_groups=4, max_staleness=2, max_running=5
    ) == 2  # fmt: skip
    assert (
        num_admissible(counts(), version=9, batch_groups=4, max_staleness=None, max_running=5) == 5
    )


def test_no_bound_at_all_is_refused():
    with pytest.raises(ValueError, match="no limit at all"):
        num_admissible(counts(), version=0, batch_groups=4, max_staleness=None)


def test_counts_that_lose_a_group_are_not_balanced():
    assert GroupCounts(
        submitted=7, running=2, accepted=4, rejected=1, consumed=2, queued=1, dropped=1
    ).balanced
    assert not GroupCounts(submitted=7, running=2, accepted=4).balanced
    assert not GroupCounts(submitted=4, accepted=4, consumed=2, queued=1).balanced


def test_what_waits_takes_the_place_of_what_could_run_without_a_bound():
    def room(running, queued):
        return num_admissible(
            counts(running=running, accepted=queued),
            version=0,
            batch_groups=4,
            max_staleness=None,
            max_running=6,
            max_under_way=10,
        )

    # Not before all places to wait could be taken.
    assert [room(2, queued) for queued in (0, 4, 5, 8, 9)] == [4, 4, 3, 0, 0]
