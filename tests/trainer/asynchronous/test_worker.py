"""A worker in this process: it plays on by itself, and takes new weights in between."""

import copy
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from earl_trainer.asynchronous.weights import pack_weights
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rollout.starts import grouped_starts

FUNCTIONS = Path(__file__).parents[1] / "rewards" / "functions"


def take_groups(worker, num_groups, timeout_s=60.0):
    groups, deadline_s = [], time.monotonic() + timeout_s
    while len(groups) < num_groups:
        groups += worker.take(0.1).groups
        assert time.monotonic() < deadline_s
    return groups


def granted(num_groups, seed=0):
    starts = grouped_starts(seed, step=0, num_episodes=4 * num_groups, group_size=4, num_seats=2)
    return [(n, [each for each in starts if each.group == n]) for n in range(num_groups)]


def changed(model, factor):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(factor)
    return other


def assert_emitted_by(models, turn, temperature=1.0):
    """Check every token's log-prob against the weights that are said to have emitted it."""
    ids = torch.tensor([[*turn.prompt_ids, *turn.reply_ids]])
    for place, version in enumerate(turn.versions):
        with torch.no_grad():
            logits = models[version](ids).logits[0, len(turn.prompt_ids) + place - 1]
        expected = (logits / temperature).log_softmax(-1)[turn.reply_ids[place]].item()
        assert turn.logprobs[place] == pytest.approx(expected, abs=2e-4)


def test_it_plays_what_it_is_granted_with_the_weights_it_was_given(make_settings, tiny_model):
    worker = RolloutWorker(make_settings())
    worker.publish(3, pack_weights(tiny_model))
    worker.grant(granted(3))
    groups = take_groups(worker, 3)
    assert sorted(group.number for group in groups) == [0, 1, 2]
    turns = [turn for group in groups for each in group.episodes for turn in each.turns]
    assert {version for turn in turns for version in turn.versions} == {3}
    for turn in turns[:20]:
        assert_emitted_by({3: tiny_model}, turn)


@pytest.mark.parametrize("interrupt", [True, False])
def test_new_weights_take_over_within_a_reply_or_after_it(make_settings, tiny_model, interrupt):
    settings = make_settings(interrupt=interrupt, max_reply_tokens=100)
    models = {version: changed(tiny_model, 1.0 - 0.02 * version) for version in range(9)}
    worker = RolloutWorker(settings)
    worker.publish(0, pack_weights(models[0]))
    worker.grant(granted(16))
    for version in range(1, 9):
        assert worker.publish(version, pack_weights(models[version])) == version
    groups = take_groups(worker, 16)
    turns = [turn for group in groups for each in group.episodes for turn in each.turns]
    assert all(list(turn.versions) == sorted(turn.versions) for turn in turns)
    mixed = [turn for turn in turns if len(set(turn.versions)) > 1]
    assert bool(mixed) is interrupt
    for turn in [*mixed[:10], *turns[:10]]:
        assert len(turn.reply_ids) == len(turn.logprobs) == len(turn.versions)
        assert_emitted_by(models, turn)


def test_what_goes_wrong_inside_is_raised_to_whoever_asks_next(make_settings, tiny_model):
    worker = RolloutWorker(make_settings())
    with pytest.raises(ValueError, match="zip"):
        worker.publish(0, pack_weights(tiny_model)[:-1])
    with pytest.raises(ValueError, match="zip"):
        worker.take(0.1)


def test_closing_ends_it_and_its_engine_in_the_middle_of_a_reply(make_settings, tiny_model):
    worker = RolloutWorker(make_settings(max_reply_tokens=100))
    worker.publish(0, pack_weights(tiny_model))
    worker.grant(granted(16))
    deadline_s = time.monotonic() + 30.0
    while not worker._engine.resident_tokens:
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    start_s = time.monotonic()
    worker.close()
    worker.close()
    assert time.monotonic() - start_s < 2.0
    assert not worker._thread.is_alive()
    assert worker._engine.resident_tokens == 0


def test_it_says_how_long_it_had_nothing_to_do(make_settings, tiny_model):
    worker = RolloutWorker(make_settings())
    worker.publish(0, pack_weights(tiny_model))
    worker.take(0.01)
    time.sleep(0.5)
    idle = worker.take(0.01)
    assert idle.idle_s > 0.3
    assert idle.busy_s < 0.2
    worker.grant(granted(1))
    take_groups(worker, 1)


def test_a_group_is_finished_with_its_rewards_and_others_are_played_meanwhile(
    make_settings, tiny_model, monkeypatch, tmp_path
):
    monkeypatch.syspath_prepend(FUNCTIONS)
    monkeypatch.setenv("GATE", str(gate := tmp_path / "gate"))
    settings = make_settings()
    # One more than the episodes that wait.
    rewards = RewardConfig(functions=("odd_rewards:wait_in_seat_0",), num_processes=5)
    worker = RolloutWorker(replace(settings, config=replace(settings.config, reward=rewards)))
    try:
        worker.publish(0, pack_weights(tiny_model))
        worker.grant(granted(2))
        told, deadline_s = [], time.monotonic() + 60.0
        while (num_groups := sum(len(each.groups) for each in told)) < 2:
            if num_groups:
                gate.touch()
            told.append(worker.take(0.1))
            assert time.monotonic() < deadline_s
        first, second = (group for each in told for group in each.groups)
        assert (first.number, second.number) == (1, 0)
        for seat, group in enumerate((second, first)):
            assert {each.judgement.bonus for each in group.episodes} == {float(seat)}
        idle_s = sum(each.idle_s for each in told)
        assert 0.0 < sum(each.reward_wait_s for each in told) <= idle_s
    finally:
        worker.close()
