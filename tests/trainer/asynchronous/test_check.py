import re

import pytest
from earl_trainer.asynchronous.check import (
    check_asynchronous,
    note_idle_workers,
    note_unused_staleness,
)

AHEAD = {"max_staleness": 2, "selector": {"num_devices": 1, "tp_degrees": (1,)}}
UNBOUNDED = {"asynchronous": {"bound": "none", "max_running_groups": 4}}


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            {"rollout": {"overflow": "cut"}},
            "with max_staleness 2, asynchronous.bound admission and asynchronous.always False, "
            "rollout.overflow must be queue, as contexts come and go; got cut",
        ),
        ({"rollout_workers": 2}, "rollout_workers must be 1"),
        ({"learner_workers": 2}, "learner_workers must be 1"),
        ({"selector": {"num_devices": 2, "tp_degrees": (1, 2)}}, "selector.num_devices must be 1"),
        (
            {"opponent": "pool:recency"},
            "opponent must be another with max_staleness 2, asynchronous.bound admission and "
            "asynchronous.always False, got pool:recency",
        ),
        ({"asynchronous": {"bound": "none"}}, "which must be >= 1, got 0"),
        (
            {"asynchronous": {"num_workers": 3, "max_running_groups": 2}},
            "asynchronous.max_running_groups must be >= asynchronous.num_workers, got 2 and 3",
        ),
        (
            {"asynchronous": {"worker_cores": (1, 1, 2), "max_running_groups": 2}},
            "asynchronous.max_running_groups must be >= asynchronous.num_workers, got 2 and 3",
        ),
        (
            {"asynchronous": {"split": 0.5, "num_threads": 2}},
            "got asynchronous.split and asynchronous.num_threads",
        ),
        (
            {"asynchronous": {"publish_every_steps": 4}},
            "publish_every_steps must be at most that, got 4 and max_staleness = 2",
        ),
        (
            {"asynchronous": UNBOUNDED["asynchronous"] | {"max_queued_groups": 3}},
            "asynchronous.max_queued_groups must be >= its 4 groups, got 3",
        ),
        (
            {"asynchronous": {"max_queued_groups": 8}},
            "asynchronous.bound admission limits how many groups wait by max_staleness: "
            "asynchronous.max_queued_groups must be 0, got 8",
        ),
        (
            {"algorithm": {"name": "dapo"}, "reward": {"models": ("folder=1",)}},
            "groups that are played ahead are filtered before reward.models or judge.url score "
            "them: zero-variance, of experience.filters or the algorithm dapo, needs rewards "
            "without them or max_staleness 0, got folder=1",
        ),
    ],
)
def test_what_generation_ahead_cannot_do_is_refused_with_the_rule(overrides, message, small_config):
    for possible in (
        {},
        {"rollout": {"engine": "vllm"}},
        UNBOUNDED,
        {"asynchronous": UNBOUNDED["asynchronous"] | {"max_queued_groups": 4}},
    ):
        check_asynchronous(small_config(AHEAD, possible), num_seats=2)
    with pytest.raises(ValueError, match=re.escape(message)):
        check_asynchronous(small_config(AHEAD, overrides), num_seats=2)


def test_taking_turns_with_workers_leaves_no_version_out(small_config):
    turns = {"asynchronous": {"always": True, "publish_every_steps": 2}}
    with pytest.raises(ValueError, match="got 2 and max_staleness = 0"):
        check_asynchronous(small_config(turns), num_seats=2)


def test_too_few_groups_to_be_as_far_ahead_as_allowed_are_said_and_not_refused(small_config):
    few = small_config(AHEAD, {"asynchronous": {"max_running_groups": 7}})
    check_asynchronous(few, num_seats=2)
    assert note_unused_staleness(few, num_seats=2) == (
        "max_staleness 2 lets 12 groups be under way, of which "
        "asynchronous.max_running_groups = 7 run at once"
    )
    enough = small_config(AHEAD, {"asynchronous": {"max_running_groups": 12}})
    for config in (enough, small_config(AHEAD), small_config(), small_config(AHEAD, UNBOUNDED)):
        assert note_unused_staleness(config, num_seats=2) is None


def test_workers_that_could_never_all_be_busy_are_said_and_not_refused(small_config):
    def note(num_workers, *overrides):
        config = small_config({"asynchronous": {"num_workers": num_workers}}, *overrides)
        check_asynchronous(config, num_seats=2)
        return note_idle_workers(config, num_seats=2)

    assert note(14, AHEAD) == (
        "max_staleness 2 lets 12 groups be under way, so that 2 of the 14 workers always have none"
    )
    assert note(12, AHEAD) is None
    # Self-play fills every seat of a group's tables: half as many groups.
    assert "6 of the 12 workers" in note(12, AHEAD, {"opponent": "self"})
    assert "1 of the 5 workers" in note(5, {"asynchronous": {"always": True}})
    assert note(5) is None
    unbounded = {"bound": "none", "max_running_groups": 20}
    assert note(14, AHEAD, {"asynchronous": unbounded}) is None
