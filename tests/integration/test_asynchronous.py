"""Generation in a process of its own: at staleness 0 it is the synchronous run, above it learns."""

import json
from contextlib import closing

import pytest
import torch
from earl_envs import RandomOpponent
from earl_trainer.asynchronous.collection import BackgroundCollection
from earl_trainer.asynchronous.groups import group_starts, groups_per_step
from earl_trainer.experience.samples import add_staleness, build_columns
from earl_trainer.launch import run_to_end
from earl_trainer.loop import train_step
from earl_trainer.phases import RL
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rollout.collection import InlineCollection
from earl_trainer.rollout.play import Play
from earl_trainer.rollout.policies import LanguagePolicy
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.streaming_collector import StreamingCollector
from earl_trainer.rollout.streaming_engine import StreamingEngine
from earl_trainer.seeding import derive_seed
from earl_trainer.staging import enter

pytestmark = pytest.mark.slow

NUM_STEPS = 3


def weights_of(run):
    return {name: value.clone() for name, value in run.model.state_dict().items()}


def train_one_after_the_other(run, phase, play):
    """The same stages without a loop of the trainer's: play, prepare, send, update, publish."""
    stages = enter(run, phase)
    for step in range(phase.first_step, phase.first_step + NUM_STEPS):
        episodes = play(step)
        summaries = [episode.summary for episode in episodes]
        rewards = rewards_of(summaries, run.config.reward)
        columns = stages.preparer.prepare(build_columns(episodes, run.config.reward))
        columns = stages.estimator.estimate(columns, summaries, rewards)
        delivery = stages.feed.send(columns, seed=derive_seed(run.config.seed, "shuffle", step))
        stages.learner.update(
            add_staleness(delivery.batch, step), delivery.minibatches, lr=phase.lr(step)
        )
        run.engine.load_weights(step + 1)


def test_synchronous_training_is_the_stages_one_after_the_other(small_config, open_run, tmp_path):
    config = small_config()
    run = open_run(config, tmp_path / "loop")
    phase = run.phases[1]
    run.state.step = phase.first_step
    run.begin()
    stages = enter(run, phase)
    assert isinstance(stages.collection, InlineCollection)
    for _ in range(NUM_STEPS):
        train_step(run, phase, stages)
    run.tracker.close()

    plain = open_run(config, tmp_path / "plain")
    plain.begin()
    plain.engine.load_weights(phase.first_step)

    def play(step):
        starts = phase.starts(config.seed, step, num_seats=2)
        policy = LanguagePolicy(plain.engine, temperature=config.rollout.temperature)
        return plain.collector.collect(policy, starts).episodes

    train_one_after_the_other(plain, phase, play)
    plain.tracker.close()
    expected = weights_of(plain)
    assert all(torch.equal(value, expected[name]) for name, value in weights_of(run).items())


@pytest.mark.parametrize("publication", ["store", "broadcast"])
def test_a_worker_of_its_own_at_staleness_0_makes_the_same_updates_bit_for_bit(
    publication, small_config, open_run, tmp_path
):
    turns = {"always": True, "num_threads": 1, "publication": publication}
    run = open_run(small_config({"asynchronous": turns}), tmp_path / "background")
    phase = run.phases[1]
    run.state.step = phase.first_step
    run.begin()
    with closing(enter(run, phase)) as stages:
        assert isinstance(stages.collection, BackgroundCollection)
        for _ in range(NUM_STEPS):
            train_step(run, phase, stages)
    run.tracker.close()

    config = small_config()
    plain = open_run(config, tmp_path / "plain")
    plain.begin()
    engine = StreamingEngine(
        plain.model,
        stop_ids=frozenset({plain.tokenizer.eos_token_id}),
        capacity_tokens=plain.engine.capacity_tokens,
        max_context_tokens=config.rollout.max_context_tokens,
    )
    streaming = StreamingCollector(
        Seating(
            plain.game,
            game_id=config.env,
            opponent=RandomOpponent(),
            match_opponent=RandomOpponent(),
        ),
        Play(
            plain.game,
            chat=run.collector._play._chat,
            max_context_tokens=config.rollout.max_context_tokens,
            max_reply_tokens=config.rollout.max_reply_tokens,
        ),
        engine=engine,
        policy=LanguagePolicy(engine, temperature=config.rollout.temperature),
    )
    starts = group_starts(phase, seed=config.seed, num_seats=2)
    batch_groups = groups_per_step(phase, num_seats=2)

    def play(step):
        engine.load_weights(step)
        first = (step - phase.first_step) * batch_groups
        for number in range(first, first + batch_groups):
            streaming.begin(number, starts(number))
        ended = {}
        while streaming.is_busy:
            ended |= dict(streaming.advance())
        return [episode for number in sorted(ended) for episode in ended[number]]

    train_one_after_the_other(plain, phase, play)
    plain.tracker.close()
    expected = weights_of(plain)
    assert all(torch.equal(value, expected[name]) for name, value in weights_of(run).items())


@pytest.mark.parametrize("bound", ["admission", "strict"])
def test_a_run_that_is_ahead_ends_with_every_group_accounted_for(
    bound, small_config, open_run, tmp_path
):
    config = small_config({"max_staleness": 2, "asynchronous": {"bound": bound}})
    run = open_run(config, tmp_path)
    assert run_to_end(run) == 0
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    steps = [record for record in records if record.get("phase") == RL]
    assert len(steps) == config.learner.num_steps
    for done, record in enumerate(steps, start=1):
        count = {
            name: record[f"async/{name}_groups"]
            for name in (
                "submitted", "running", "accepted", "rejected", "consumed", "queued", "dropped"
            )
        }  # fmt: skip
        assert count["submitted"] == count["accepted"] + count["rejected"] + count["running"]
        assert count["accepted"] == count["consumed"] + count["queued"] + count["dropped"]
        batch = config.rollout.num_episodes // config.rollout.group_size
        assert count["consumed"] == batch * done
        assert count["submitted"] - count["rejected"] <= (done + 2) * batch
        assert record["policy/behaviour_weight"] == pytest.approx(1.0, abs=0.5)
    if bound == "strict":
        assert max(record["staleness/max"] for record in steps) <= 2.0
    assert max(record["staleness/max"] for record in steps) >= 1.0
