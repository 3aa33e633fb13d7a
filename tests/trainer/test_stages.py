"""What stages leave behind after a step."""

import torch
from earl_trainer.guards.reward_normaliser import RewardNormaliser, RewardStatistics
from earl_trainer.loop import train_step
from earl_trainer.stages import LEARNER_FILE, normalise_rewards
from earl_trainer.staging import enter
from earl_trainer.workers.group import ALONE


def test_a_complete_step_leaves_in_the_state_and_in_files_what_the_next_one_needs(
    tmp_path, small_config, open_run
):
    config = small_config({"algorithm": {"name": "rae"}, "guards": {"normalise_rewards": "scale"}})
    run = open_run(config, tmp_path / "run")
    phase = run.phases[1]
    run.state.step = phase.first_step
    stages = enter(run, phase)
    train_step(run, phase, stages)
    run.tracker.close()

    assert any(run.state.estimation["baselines"]), "RAE keeps a mean per seat"
    assert run.state.rewards.count == config.rollout.num_episodes
    stages.save(tmp_path)
    saved = torch.load(tmp_path / LEARNER_FILE)
    assert saved["optimizer"]["adamw"]["state"], "moments of the update"


def test_parts_are_divided_by_the_spread_of_rewards_and_no_mean_is_taken_off_them():
    def normalised(rule, statistics):
        normaliser = RewardNormaliser(rule, statistics, ALONE)
        return normalise_rewards(normaliser, [1.0, None, 5.0], [(2.0, -2.0), (), (3.0,)])

    parts = [[1.0, -1.0], [], [1.5]]
    assert normalised("scale", RewardStatistics()) == ([0.5, None, 2.5], parts)
    assert normalised("centre", RewardStatistics()) == ([-1.0, None, 1.0], parts)
    past = RewardStatistics(count=2, mean=3.0, squares=800.0)
    assert normalised("off", past) == ([1.0, None, 5.0], [(2.0, -2.0), (), (3.0,)])
