"""Every step is shown to every guard, and what they saw survives a resume."""

import json

from earl_trainer.guards.bounds import LastingBreach
from earl_trainer.guards.guard import Action
from earl_trainer.guards.panel import Panel, PanelState, Watch
from earl_trainer.guards.plateau import RewardPlateau

PANEL = Panel(
    watches=[
        Watch(
            name="kl",
            guard=LastingBreach(figure="policy/kl", high=0.1, num_steps=2),
            action=Action.WARN,
        ),
        Watch(
            name="plateau",
            guard=RewardPlateau(least_gain=0.1, num_steps=2),
            action=Action.STOP,
        ),
    ]
)
KL = [0.2, 0.0, 0.2, 0.3, 0.3, 0.0]
REWARD = [0.0, 0.5, 0.5, 0.9, 0.5, 0.5]


def run(steps, state=None, *, through_json=False):
    state, told = state or PanelState(), []
    for step in steps:
        metrics = {"policy/kl": KL[step], "reward/mean": REWARD[step]}
        alarms, state = PANEL.update(state, metrics, step=step)
        if through_json:
            state = PanelState.from_dict(json.loads(json.dumps(state.to_dict())))
        told.append([(a.guard, a.first_step, a.new) for a in alarms])
    return told, state


def test_alarms_say_since_when_and_whether_they_are_new_the_most_severe_first():
    told, state = run(range(6))
    assert told == [
        [],
        [],
        [],
        [("kl", 2, True)],
        [("kl", 3, False)],
        [("plateau", 4, True)],
    ]
    assert state.num_alarms == {"kl": 2, "plateau": 1}
    assert PANEL.metrics(state) == {"guard/kl": 0.0, "guard/plateau": 1.0}


def test_the_most_severe_alarm_comes_first():
    metrics = {"policy/kl": 1.0, "reward/mean": 0.0}
    state = PanelState()
    for step in range(4):
        alarms, state = PANEL.update(state, metrics, step=step)
    assert [alarm.guard for alarm in alarms] == ["plateau", "kl"]


def test_a_resumed_panel_finds_what_one_that_never_stopped_does():
    whole, state = run(range(6))
    assert run(range(6), through_json=True) == (whole, state)
    for stop in range(1, 6):
        first, halfway = run(range(stop), through_json=True)
        rest, end = run(range(stop, 6), halfway)
        assert first + rest == whole
        assert end == state


def test_no_more_is_kept_than_guards_ask_for():
    _, state = run([0] * 50)
    assert {name: len(rows) for name, rows in state.rows.items()} == {"kl": 2, "plateau": 4}


def test_a_step_without_a_figure_is_passed_over():
    _, state = run([2])
    alarms, after = PANEL.update(state, {"reward/mean": 0.0}, step=1)
    assert alarms == []
    assert after.rows["kl"] == state.rows["kl"]
    assert len(after.rows["plateau"]) == 2


def test_only_a_guard_that_may_roll_back_needs_something_to_go_back_to():
    assert not PANEL.rolls_back
    guard = PANEL.watches[0].guard
    assert Panel(watches=[Watch(name="a", guard=guard, action=Action.ROLL_BACK)]).rolls_back
