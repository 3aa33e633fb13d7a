import time

import pytest
import torch
from earl_trainer.asynchronous.admission import Bound
from earl_trainer.asynchronous.broadcast import BroadcastPublication
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.asynchronous.ledger import GroupLedger, StalenessRules
from earl_trainer.asynchronous.publication import StorePublication
from earl_trainer.asynchronous.setup import (
    make_background_collection,
    make_publication,
    staleness_rules,
    under_way_after,
)
from earl_trainer.phases import RL, WARMUP, plan_phases
from earl_trainer.rollout.collection import RolloutRequest


@pytest.mark.parametrize(
    ("publication", "kind"), [("store", StorePublication), ("broadcast", BroadcastPublication)]
)
def test_the_way_in_which_weights_travel_is_chosen_by_the_config(
    publication, kind, make_fake_workers
):
    workers = make_fake_workers(1)
    rules = AsynchronousConfig(publication=publication)
    assert isinstance(make_publication(rules, workers, workers, host="127.0.0.1"), kind)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"bound": "none", "max_running_groups": 6}, 6 + 8 * 4),
        ({"bound": "none", "max_running_groups": 6, "max_queued_groups": 5}, 6 + 5),
        ({"bound": "admission", "max_running_groups": 6}, None),
        ({"bound": "strict"}, None),
    ],
)
def test_groups_that_wait_are_limited_where_nothing_else_bounds_them(fields, limit, small_config):
    config = small_config({"max_staleness": 2, "asynchronous": fields})
    rules = staleness_rules(config, batch_groups=4)
    assert (rules.bound, rules.max_under_way) == (Bound(fields["bound"]), limit)
    assert rules.max_running == fields.get("max_running_groups")


def test_a_run_that_took_turns_so_far_may_not_start_more_than_one_that_did_not(
    small_config, mute_policy
):
    phase = plan_phases(small_config(), {WARMUP: mute_policy, RL: mute_policy})[1]
    rules = StalenessRules(batch_groups=4, max_staleness=2, bound=Bound.ADMISSION)
    ledger = GroupLedger.from_dict(rules, under_way_after(50, phase, num_seats=2))
    # (eta + 1) B of them, with numbers that no step before has played.
    assert ledger.admit(50) == list(range(200, 212))


@pytest.mark.slow
def test_a_run_that_goes_on_plays_again_what_was_under_way(
    small_config, tiny_model, tiny_tokenizer, mute_policy
):
    config = small_config({"max_staleness": 1})
    policy = mute_policy
    phase = plan_phases(config, {WARMUP: policy, RL: policy})[1]
    threads = torch.get_num_threads()
    collection = make_background_collection(
        config,
        phase,
        model=tiny_model,
        tokenizer=tiny_tokenizer,
        capacity_tokens=4000,
        num_seats=2,
        under_way={"num_consumed": 8, "first": 15, "again": [3, 9]},
        note=print,
    )
    try:
        step = phase.first_step + 2
        collection.publish(tiny_model, step)
        rollout = collection.collect(RolloutRequest(step=step))
        groups = list(dict.fromkeys(episode.start.group for episode in rollout.episodes))
        assert len(groups) == 4
        assert set(groups) <= {3, 9, *range(15, 21)}
        versions = {v for each in rollout.episodes for turn in each.turns for v in turn.versions}
        assert versions == {step}
        start_s = time.monotonic()
    finally:
        collection.close()
    assert time.monotonic() - start_s < 5.0
    assert torch.get_num_threads() == threads
