"""Which guards a run has."""

import re

import pytest
import torch
from earl_trainer.algorithms.losses import LossInputs
from earl_trainer.algorithms.off_policy import CORRECTIONS
from earl_trainer.algorithms.settings import loss_settings
from earl_trainer.algorithms.table import ALGORITHMS
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


def figures_of(config):
    return {watch.name: watch.guard.figures for watch in make_panel(config).watches}


@pytest.mark.parametrize(
    ("algorithm", "figure"),
    [
        ({}, "policy/kl"),
        ({"kl_in": "reward"}, "policy/kl"),
        ({"kl_coefficient": 0.1}, "policy/reference_kl"),
        ({"kl_coefficient": 0.1, "kl_in": "reward"}, "advantage/reference_kl"),
    ],
)
def test_the_divergence_is_that_to_the_reference_where_there_is_one(algorithm, figure):
    assert figures_of(config_of(guards={"kl": "warn"}, algorithm=algorithm))["kl"] == (figure,)


def told_of(config):
    """The names of what the loss of a run reports."""
    algorithm, token = ALGORITHMS[config.algorithm.name], torch.zeros(1)
    settings = loss_settings(
        config.algorithm,
        algorithm,
        correction=CORRECTIONS["none" if algorithm.corrects_itself else config.correction],
        kl_coefficient=config.algorithm.kl_coefficient,
    )
    given = LossInputs(
        logprobs=token,
        entropy=token,
        old_logprobs=token,
        behaviour_logprobs=token,
        staleness=token,
        reference_logprobs=token,
        advantages=token,
        rows=torch.zeros(1, dtype=torch.int64),
        mask=torch.ones(1, dtype=torch.bool),
    )
    return {f"policy/{name}" for name in algorithm.loss(given, settings).metrics}


REINFORCING = [name for name, algorithm in ALGORITHMS.items() if algorithm.reinforces]


@pytest.mark.parametrize("name", REINFORCING)
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("coefficient", [0.0, 0.1])
def test_a_divergence_is_watched_if_and_only_if_the_loss_tells_it(name, correction, coefficient):
    algorithm = {"name": name, "correction": correction, "kl_coefficient": coefficient}
    for guards, wanted in (
        ({"kl": "warn"}, "policy/reference_kl" if coefficient else "policy/kl"),
        ({"max_update_kl": 0.1}, "policy/kl"),
    ):
        config = config_of(guards=guards, algorithm=algorithm)
        if wanted in told_of(config):
            check_guards(config)
            assert guards.get("kl") is None or figures_of(config)["kl"] == (wanted,)
        else:
            with pytest.raises(
                ValueError, match=f"needs .*got algorithm.name = '{re.escape(name)}'"
            ):
                check_guards(config)


def test_skipped_updates_of_a_critic_are_watched_where_there_is_one():
    assert "value_gradient" not in figures_of(RunConfig())
    figures = figures_of(config_of(algorithm={"name": "ppo"}))
    assert figures["gradient"] == ("policy/skipped_updates",)
    assert figures["value_gradient"] == ("policy/value_skipped_updates",)
    off = config_of(algorithm={"name": "ppo"}, guards={"gradient": "off"})
    assert not {"gradient", "value_gradient"} & set(figures_of(off))


@pytest.mark.parametrize(
    ("tree", "rule"),
    [
        ({"guards": {"hacking": "warn"}}, "evaluation.every_steps must be >= 1"),
        (
            {"guards": {"kl": "warn"}, "algorithm": {"name": "sft"}},
            "guards.kl needs .*an algorithm",
        ),
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
