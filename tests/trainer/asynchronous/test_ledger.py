from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.asynchronous.admission import Bound
from earl_trainer.asynchronous.ledger import GroupLedger, StalenessRules
from earl_trainer.rewards.outcome import Judgement
from hypothesis import given, settings
from hypothesis import strategies as st


def rules(bound=Bound.ADMISSION, *, batch=2, eta=1, **rest):
    return StalenessRules(batch_groups=batch, max_staleness=eta, bound=bound, **rest)


def numbers(batch):
    return None if batch is None else [group.number for group in batch]


def test_groups_are_handed_out_oldest_first_and_once(group):
    ledger = GroupLedger(rules())
    assert ledger.admit(0) == [0, 1, 2, 3]
    assert ledger.admit(0) == []
    for number in (3, 1):
        ledger.finish(group(number))
    assert numbers(ledger.take_batch(0)) == [1, 3]
    assert ledger.take_batch(1) is None
    assert ledger.admit(1) == [4, 5]
    for number in (5, 0, 4):
        ledger.finish(group(number))
    assert numbers(ledger.take_batch(1)) == [0, 4]
    assert ledger.unfinished == [2, 5]


def test_the_strict_bound_waits_for_the_slow(group):
    ledger = GroupLedger(rules(Bound.STRICT))
    ledger.admit(0)
    for number in (1, 2, 3):
        ledger.finish(group(number))
    assert ledger.take_batch(0) is None
    ledger.finish(group(0))
    assert numbers(ledger.take_batch(0)) == [0, 1]


def test_what_gives_nothing_to_train_on_is_rejected_and_replaced(group):
    ledger = GroupLedger(rules())
    ledger.admit(0)
    ledger.finish(group(1, reason=EndReason.ENV_ERROR))
    ledger.finish(group(2, turns=0))
    unrewarded = group(3)
    judgement = Judgement(outcomes={}, bonus=None)
    episodes = [replace(each, judgement=judgement) for each in unrewarded.episodes]
    ledger.finish(replace(unrewarded, episodes=episodes))
    assert ledger.counts.rejected == 3
    assert ledger.admit(0) == [4, 5, 6]


def test_what_is_not_accepted_is_rejected_by_the_counts_of_those_before_and_replaced(group):
    def accepts(finished, counts):
        return finished.number % 2 == 1 or counts.rejected == 1

    ledger = GroupLedger.from_dict(rules(), {}, accepts)
    ledger.admit(0)
    for number in (0, 1, 2):
        ledger.finish(group(number))
    assert (ledger.counts.rejected, ledger.counts.accepted) == (1, 2)
    assert ledger.admit(0) == [4]
    assert numbers(ledger.take_batch(0)) == [1, 2]


def test_what_is_too_old_is_dropped_and_replaced_only_if_asked_for(group):
    for discard in (False, True):
        ledger = GroupLedger(rules(discard=discard))
        ledger.admit(3)
        for number in range(3):
            ledger.finish(group(number, version=number))
        batch = ledger.take_batch(3)
        if discard:
            # Version 2 is the oldest that a batch at version 3 may hold.
            assert batch is None
            assert ledger.counts.dropped == 2
            assert len(ledger.admit(3)) == 2
        else:
            assert numbers(batch) == [0, 1]


def test_a_group_that_was_not_granted_is_refused(group):
    ledger = GroupLedger(rules())
    ledger.admit(0)
    ledger.finish(group(0))
    for number in (0, 9):
        with pytest.raises(ValueError, match=f"group {number} is not running"):
            ledger.finish(group(number))


def test_a_run_that_goes_on_has_the_room_it_had_and_plays_again_what_was_under_way(group):
    ledger = GroupLedger(rules(batch=4, eta=2))
    for version in range(50):
        for number in ledger.admit(version):
            if number % 7:
                ledger.finish(group(number, version=version))
        ledger.take_batch(version)
    again = GroupLedger.from_dict(rules(batch=4, eta=2), ledger.to_dict())
    consumed = ledger.counts.consumed
    assert again.counts.consumed == again.counts.submitted == consumed
    # (eta + 1) B at the version that fits what was consumed, not more for having been long.
    admitted = again.admit(consumed // 4)
    assert len(admitted) == 3 * 4 - consumed % 4
    assert admitted[: len(ledger.unfinished)] == ledger.unfinished[: len(admitted)]
    assert len(set(admitted)) == len(admitted)


def test_without_a_bound_no_more_groups_finish_than_may_wait_while_nobody_learns(group):
    ledger = GroupLedger(rules(Bound.NONE, batch=4, max_running=6, max_under_way=6 + 8))
    for _ in range(5):
        for number in ledger.admit(0):
            ledger.finish(group(number))
    assert ledger.counts.queued == 14
    assert ledger.take_batch(0) is not None
    assert len(ledger.admit(1)) == 4


@settings(max_examples=60, deadline=None)
@given(
    bound=st.sampled_from(list(Bound)),
    eta=st.integers(0, 4),
    batch=st.integers(1, 4),
    discard=st.booleans(),
    data=st.data(),
)
def test_no_group_is_lost_or_trained_twice_and_the_strict_bound_holds(
    group, bound, eta, batch, discard, data
):
    limit = 12 + batch if bound is Bound.NONE else None
    rule = rules(bound, batch=batch, eta=eta, discard=discard, max_running=12, max_under_way=limit)
    ledger, version, born, trained = GroupLedger(rule), 0, {}, []
    for _ in range(80):
        for number in ledger.admit(version):
            born[number] = version
        assert ledger.counts.balanced
        assert limit is None or ledger.counts.running + ledger.counts.queued <= limit
        running = sorted(set(born) - {n for n, _ in trained} - set(ledger._queued))
        running = [number for number in running if number in ledger._running]
        deed = data.draw(st.sampled_from(["finish", "fail", "lose"]))
        if running and deed == "lose":
            lost = [data.draw(st.sampled_from(running))]
            ledger.requeue(lost)
            for number in lost:
                del born[number]
        elif running:
            number = data.draw(st.sampled_from(running))
            reason = EndReason.FINISHED if deed == "finish" else EndReason.ENV_ERROR
            ledger.finish(group(number, version=born[number], reason=reason))
        taken = ledger.take_batch(version)
        if taken is not None:
            assert numbers(taken) == sorted(numbers(taken))
            trained += [(each.number, version - each.oldest_version) for each in taken]
            version += 1
    assert len({number for number, _ in trained}) == len(trained) == batch * version
    if bound is Bound.STRICT or discard:
        assert all(staleness <= eta for _, staleness in trained)
