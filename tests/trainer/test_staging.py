"""A phase has the stages that the configuration asks for."""

from earl_trainer.experience.estimator import Estimator, Untouched
from earl_trainer.experience.valued_prepare import ValuedPreparer
from earl_trainer.learner.critic import ActorCritic
from earl_trainer.learner.learner import Learner
from earl_trainer.staging import enter


def entered(small_config, open_run, folder, changes):
    """The stages of the last phase, entered for the first time."""
    run = open_run(small_config(changes), folder)
    run.tracker.close()
    phase = run.phases[-1]
    run.state.step = phase.first_step
    stages = enter(run, phase)
    stages.close()
    assert run.stages is stages
    return stages


def test_a_critic_takes_part_where_the_algorithm_has_one(tmp_path, small_config, open_run):
    ppo = entered(small_config, open_run, tmp_path / "ppo", {"algorithm": {"name": "ppo"}})
    assert ppo.critic is not None
    assert isinstance(ppo.preparer, ValuedPreparer)
    assert isinstance(ppo.learner, ActorCritic)
    grpo = entered(small_config, open_run, tmp_path / "grpo", {})
    assert grpo.critic is None
    assert isinstance(grpo.learner, Learner)


def test_pairs_are_learned_from_without_advantages(tmp_path, small_config, open_run):
    dpo = entered(small_config, open_run, tmp_path / "dpo", {"preference": {"name": "dpo"}})
    assert isinstance(dpo.estimator, Untouched)
    shown = entered(small_config, open_run, tmp_path / "sft", {"preference": {"name": "sft"}})
    assert isinstance(shown.estimator, Estimator), "games that are imitated are weighed by it"
