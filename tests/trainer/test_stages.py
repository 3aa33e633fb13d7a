"""What stages leave behind after a step."""

import torch
from earl_trainer.loop import train_step
from earl_trainer.stages import LEARNER_FILE
from earl_trainer.staging import enter


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
