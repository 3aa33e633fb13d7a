"""Which guards a run has."""

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.guards.guard import Action
from earl_trainer.guards.setup import check_guards, make_panel
from earl_trainer.overrides import resolve


def config_of(**tree):
    return resolve(RunConfig(), tree)


def test_guards_are_switched_on_and_off_each_by_itself():
    panel = make_panel(config_of(guards={"kl": "roll-back", "entropy": "off", "plateau": "stop"}))
    assert {watch.name: watch.action for watch in panel.watches} == {
        "kl": Action.ROLL_BACK,
        "loss_spike": Action.WARN,
        "gradient": Action.WARN,
        "plateau": Action.STOP,
    }


def test_the_divergence_is_that_to_the_reference_where_there_is_one():
    for coefficient, figure in ((0.0, "policy/kl"), (0.1, "policy/reference_kl")):
        panel = make_panel(
            config_of(guards={"kl": "warn"}, algorithm={"kl_coefficient": coefficient})
        )
        assert figure in [name for watch in panel.watches for name in watch.guard.figures]


@pytest.mark.parametrize(
    ("tree", "rule"),
    [
        ({"guards": {"hacking": "warn"}}, "evaluation.every_steps must be >= 1"),
        ({"guards": {"kl": "warn"}, "algorithm": {"name": "sft"}}, "guards.kl needs an algorithm"),
        (
            {"guards": {"max_update_kl": 0.1}, "algorithm": {"name": "sft"}},
            "guards.max_update_kl needs an algorithm",
        ),
    ],
)
def test_a_guard_that_could_never_find_anything_is_refused(tree, rule):
    with pytest.raises(ValueError, match=rule):
        check_guards(config_of(**tree))


def test_the_guards_of_a_default_run_are_in_order():
    check_guards(RunConfig())
    check_guards(config_of(guards={"hacking": "stop"}, evaluation={"every_steps": 5}))
