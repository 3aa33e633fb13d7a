"""The order of a step, and that a step which is interrupted early leaves no trace."""

import pytest
from earl_trainer.loop import train_step
from earl_trainer.staging import enter


@pytest.fixture
def step_of(small_config, open_run, tmp_path):
    def make(display):
        run = open_run(small_config(), tmp_path, display=display)
        phase = run.phases[1]
        run.state.step = phase.first_step
        return run, phase, enter(run, phase)

    return make


def test_a_step_goes_through_its_stages_in_order_and_publishes_new_weights(step_of, silent_display):
    stages_seen = []
    run, phase, stages = step_of(silent_display(lambda step, stage: stages_seen.append(stage)))
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    train_step(run, phase, stages)
    run.tracker.close()
    assert list(dict.fromkeys(stages_seen)) == ["rollout", "prepare", "update"]
    assert run.state.step == run.engine.version == phase.first_step + 1
    assert run.state.report is not None
    assert run.state.report.step == phase.first_step
    assert run.state.selector.tp == 1
    assert any(not value.equal(before[name]) for name, value in run.model.state_dict().items())


@pytest.mark.parametrize("stage", ["rollout", "prepare"])
def test_a_step_interrupted_before_its_update_leaves_the_run_as_it_was(
    stage, step_of, silent_display
):
    def interrupt(step, name):
        if name == stage:
            raise KeyboardInterrupt

    run, phase, stages = step_of(silent_display(interrupt))
    before = {name: value.clone() for name, value in run.model.state_dict().items()}
    state = run.state.to_dict()
    with pytest.raises(KeyboardInterrupt):
        train_step(run, phase, stages)
    run.tracker.close()
    assert run.state.to_dict() == state
    assert all(value.equal(before[name]) for name, value in run.model.state_dict().items())
    assert (run.folder / "metrics.jsonl").read_text() == ""
