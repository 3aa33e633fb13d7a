"""What guards ask for, and what of it can be done."""

import pytest
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.guards.bounds import LastingBreach
from earl_trainer.guards.guard import Action
from earl_trainer.guards.guardian import Guardian
from earl_trainer.guards.panel import Alarm, Panel, PanelState, Watch
from earl_trainer.guards.rollbacks import Rollback, RollbackLog

PANEL = Panel(
    watches=[
        Watch(
            name="kl",
            guard=LastingBreach(figure="policy/kl", high=0.1, num_steps=1),
            action=Action.ROLL_BACK,
        )
    ]
)


@pytest.fixture
def checkpoints(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoints", keep=9)
    for step in (4, 10, 20, 30):
        store.save(step, lambda folder: None)
    return store


@pytest.fixture
def guardian(tmp_path, checkpoints):
    return lambda **options: Guardian(
        PANEL, checkpoints, RollbackLog(tmp_path / "log"), **{"max_rollbacks": 2} | options
    )


def alarm(first_step):
    return Alarm(
        guard="kl", action=Action.ROLL_BACK, reason="too far", first_step=first_step, new=True
    )


def test_it_goes_back_to_the_last_checkpoint_before_the_first_bad_step(guardian, checkpoints):
    settled = guardian().settle(alarm(20), step=33, first_step=8)
    assert settled == alarm(20)
    # That of step 20 holds the weights that the first bad step was made with.
    assert list(checkpoints.complete()) == [4, 10]
    assert guardian().rollbacks == [
        Rollback(from_step=33, to_step=10, guard="kl", reason="too far")
    ]


@pytest.mark.parametrize(
    ("first_bad", "first_step", "options", "why"),
    [
        (10, 8, {}, "no checkpoint from before step 11 to go back to"),
        (20, 12, {}, "no checkpoint from before step 21"),  # that of step 10 is another phase's
        (20, 8, {"max_rollbacks": 0}, "0 rollbacks were made, no more are allowed"),
    ],
)
def test_where_it_cannot_go_back_the_run_stops(
    guardian, checkpoints, first_bad, first_step, options, why
):
    settled = guardian(**options).settle(alarm(first_bad), step=33, first_step=first_step)
    assert settled.action is Action.STOP
    assert why in settled.reason
    assert settled.reason.startswith("too far; ")
    assert list(checkpoints.complete()) == [4, 10, 20, 30]
    assert guardian().rollbacks == []


def test_a_step_is_shown_and_an_alarm_is_told_once(guardian):
    notes, state, watcher = [], PanelState(), guardian()
    metrics = {"policy/kl": 0.3, "policy/left_out_updates": 2.0, "policy/lr": 0.1}
    for step in (5, 6):
        found, state, figures = watcher.inspect(state, metrics, step=step, note=notes.append)
        assert found.guard == "kl"
    assert notes == ["step 6: guard kl: policy/kl 0.3 is above 0.1"]
    assert figures == {"guard/kl": 1.0, "guard/rollbacks": 0.0, "guard/left_out_updates": 2.0}
    found, _, figures = watcher.inspect(state, {"policy/kl": 0.0}, step=7, note=notes.append)
    assert found is None
    assert figures["guard/kl"] == 0.0
