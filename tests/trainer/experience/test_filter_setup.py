"""Filters from a config, around each kind of rollout stage."""

from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.asynchronous.admission import Bound
from earl_trainer.asynchronous.ledger import FinishedGroup, GroupLedger, StalenessRules
from earl_trainer.experience.filter_setup import filter_collection, group_acceptance, run_filters
from earl_trainer.experience.filtered_collection import FilteredCollection
from earl_trainer.experience.filters import FilterRules
from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.rollout.collection import InlineCollection, RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.workers.group import ALONE
from earl_trainer.workers.team import Team
from hypothesis import given, settings
from hypothesis import strategies as st

RULES = FilterRules(names=("zero-variance",))


class Playing:
    def __init__(self, make_episode):
        self.make_episode = make_episode
        self.asked = []

    def collect(self, policy, starts, *, share_tokens, on_turn, on_episode):
        self.asked.append(starts)
        episodes = [replace(self.make_episode(), start=start) for start in starts]
        return Rollout(episodes=episodes, peak_resident_tokens=1)


@pytest.mark.parametrize(
    ("algorithm", "experience", "names", "max_rounds"),
    [
        ("grpo", {}, (), 1),
        ("dapo", {}, ("zero-variance",), 3),
        ("dapo", {"max_rounds": 5}, ("zero-variance",), 5),
        ("dapo", {"filters": ["truncated"]}, ("truncated",), 1),
        ("dapo", {"filters": []}, (), 1),
        ("grpo", {"filters": ["zero-variance"], "max_rounds": 2}, ("zero-variance",), 2),
    ],
)
def test_what_is_left_open_is_the_algorithms_own(
    small_config, algorithm, experience, names, max_rounds
):
    config = small_config({"algorithm": {"name": algorithm}, "experience": experience})
    rules, rounds = run_filters(config)
    assert (rules.names, rounds) == (names, max_rounds)


def test_dropped_groups_are_replaced_by_others_of_the_phase(
    small_config, mute_policy, make_episode
):
    config = small_config({"experience": {"filters": ["zero-variance"], "max_rounds": 2}})
    phase = plan_phases(config, {WARMUP: mute_policy, RL: mute_policy})[1]
    playing = Playing(make_episode)
    inline = InlineCollection(playing, phase, Team(), seed=config.seed, num_seats=2)
    outcomes = [lambda episodes: [each.outcome for each in episodes], ALONE]
    collection = filter_collection(inline, config, phase, *outcomes, num_seats=2)
    step = phase.first_step + 1
    collection.collect(RolloutRequest(step=step))
    first, second = playing.asked
    assert first == phase.starts(config.seed, step, num_seats=2)
    assert [start.seat for start in second] == [start.seat for start in first]
    assert not {start.reply_seed for start in second} & {start.reply_seed for start in first}
    assert {start.group for start in first} == {0, 1, 2, 3}
    assert {start.group for start in second} == {4, 5, 6, 7}

    unfiltered = filter_collection(inline, small_config(), phase, *outcomes, num_seats=2)
    assert unfiltered is inline


def test_a_stage_in_the_background_is_only_marked(small_config, mute_policy, make_episode):
    config = small_config({"experience": {"filters": ["truncated"], "max_rounds": 3}})
    phase = plan_phases(config, {WARMUP: mute_policy, RL: mute_policy})[1]

    class Background:
        def __init__(self):
            self.takes_starts = False
            self.figures = {}
            self.asked = 0

        def collect(self, request):
            self.asked += 1
            episodes = [make_episode(), make_episode(end_reason=EndReason.CONTEXT_LIMIT)]
            return Rollout(episodes=episodes, peak_resident_tokens=1)

        def publish(self, model, version):
            raise AssertionError("no new weights in these tests")

        def to_dict(self):
            return {}

        def close(self):
            pass

    background = Background()
    collection = filter_collection(
        background, config, phase, lambda episodes: [1.0, 0.0], ALONE, num_seats=2
    )
    assert isinstance(collection, FilteredCollection)
    rollout = collection.collect(RolloutRequest(step=7))
    assert [episode.dropped_by for episode in rollout.episodes] == ["", "truncated"]
    assert background.asked == 1


@pytest.fixture(scope="session")
def group(make_episode):
    """A group of two whose rewards vary, or are equal."""

    def make(number, *, varied, end_reason=EndReason.FINISHED):
        outcomes = (1.0, -1.0 if varied else 1.0)
        return FinishedGroup(
            number=number,
            episodes=[make_episode(outcome=each, end_reason=end_reason) for each in outcomes],
        )

    return make


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=12, max_size=12), st.integers(1, 3))
def test_rejected_groups_return_their_quota_and_batches_always_fill(group, varied, max_rounds):
    batch_groups = 2
    ledger = GroupLedger(
        StalenessRules(batch_groups=batch_groups, max_staleness=0, bound=Bound.STRICT),
        accepts=group_acceptance(
            RULES,
            lambda episodes: [each.outcome for each in episodes],
            batch_groups=batch_groups,
            max_rounds=max_rounds,
        ),
    )
    for version in range(3):
        batch = None
        while batch is None:
            for number in ledger.admit(version):
                before, is_varied = ledger.counts, varied[number % len(varied)]
                ledger.finish(group(number, varied=is_varied))
                budget = (max_rounds - 1) * (before.accepted + batch_groups)
                kept = is_varied or before.rejected >= budget
                assert ledger.counts.accepted - before.accepted == kept
            batch = ledger.take_batch(version)
        assert ledger.counts.balanced
        assert ledger.counts.running == 0
        allowed = (max_rounds - 1) * (ledger.counts.accepted + batch_groups)
        assert ledger.counts.rejected <= allowed
    assert ledger.counts.consumed == 3 * batch_groups


def test_a_group_with_nothing_to_train_on_is_rejected_whatever_the_rounds(group):
    accepts = group_acceptance(RULES, lambda episodes: [None, None], batch_groups=2, max_rounds=1)
    failed = group(0, varied=True, end_reason=EndReason.ENV_ERROR)
    ledger = GroupLedger(
        StalenessRules(batch_groups=2, max_staleness=0, bound=Bound.STRICT), accepts=accepts
    )
    ledger.admit(0)
    ledger.finish(failed)
    assert ledger.counts.rejected == 1
    assert ledger.admit(0) == [2]
