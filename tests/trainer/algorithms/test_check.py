import re

import pytest
from earl_trainer.algorithms.check import check_algorithm
from earl_trainer.algorithms.table import ALGORITHMS
from earl_trainer.config import RunConfig
from earl_trainer.overrides import parse_flags, resolve

GROUPS = [name for name, algorithm in ALGORITHMS.items() if algorithm.needs_groups]


def configured(flags):
    return resolve(RunConfig(), parse_flags(flags.split()))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_fits_the_run_as_it_is(name):
    check_algorithm(configured(f"--algorithm {name}"))


@pytest.mark.parametrize("name", GROUPS)
def test_a_group_of_one_is_refused_where_groups_are_compared(name):
    config = configured(f"--algorithm {name} --rollout.group-size 1")
    rule = rf"{re.escape(name)}.*rollout.group_size must be >= 2, got 1"
    with pytest.raises(ValueError, match=rule):
        check_algorithm(config)


@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - set(GROUPS)))
def test_a_group_of_one_is_a_group_where_nothing_is_compared_in_it(name):
    check_algorithm(configured(f"--algorithm {name} --rollout.group-size 1"))


REFUSALS = [
    ("--algorithm gropo", "did you mean 'grpo'"),
    (
        "--algorithm rae --advantage.normalisation group --rollout.group-size 1",
        "normalisation group.*>= 2, got 1",
    ),
    ("--reward.truncation bootstrap", "must be one of ppo, vtrace, got 'grpo'"),
    ("--algorithm rloo --advantage.step turn", "must be ppo, got 'rloo'"),
    ("--algorithm vtrace --advantage.step turn", "must be ppo, got 'vtrace'"),
    ("--algorithm sft --algorithm.kl-coefficient 0.1", "sft has no KL term.*got 0.1"),
    (
        "--algorithm.kl-coefficient 0.1 --algorithm.kl-estimator k1",
        "kl_estimator must be k2 or k3.*got 'k1'",
    ),
    (
        "--algorithm.kl-coefficient 0.1 --algorithm.kl-target 0.1",
        "kl_in must be reward.*got 'loss' and 0.1",
    ),
    (
        "--algorithm.kl-in reward --algorithm.kl-target 0.1",
        "kl_coefficient above 0, got 'reward' and 0.0",
    ),
    (
        "--algorithm vtrace --algorithm.correction decoupled",
        "auto or none, got 'decoupled'",
    ),
    ("--algorithm.dual-clip 0.5", "dual_clip, got 0.5"),
    ("--algorithm.min-weight 0.5", "must be mask or algorithm.min_weight 0, got 'cap' and 0.5"),
    (
        "--algorithm.min-weight 5 --algorithm.on-larger-weight mask",
        "below algorithm.max_weight, got 5.0 and 5.0",
    ),
]


@pytest.mark.parametrize(("flags", "message"), REFUSALS)
def test_what_does_not_go_together_is_refused_by_rule_and_value(flags, message):
    with pytest.raises(ValueError, match=message):
        check_algorithm(configured(flags))


def test_a_value_of_the_algorithms_own_is_written_and_read_as_null():
    assert configured("--algorithm.clip-low null").algorithm.clip_low is None
    assert configured("--algorithm.clip-low 0.1").algorithm.clip_low == 0.1
