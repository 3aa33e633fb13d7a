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
        "--algorithm remax --advantage.normalisation group --rollout.group-size 1",
        "normalisation group.*>= 2, got 1",
    ),
    *(
        (
            f"--algorithm {name} --advantage.normalisation group",
            rf"none or batch, or .*grpo.*remax.*; got 'group' and '{re.escape(name)}'",
        )
        for name in ("ppo", "vtrace", "reinforce", "reinforce++", "rae")
    ),
    *(
        (
            f"--algorithm {name} --learner.num-epochs 2",
            f"loss of {name} .*num_epochs must be 1, got 2",
        )
        for name in ("reinforce", "rae", "vtrace")
    ),
    ("--algorithm rae --algorithm.correction naive", "loss of rae has no ratio: .*got 'naive'"),
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


IDLE = [
    ("--algorithm reinforce --algorithm.clip-low 0.1", "clip_low must be null, got 0.1"),
    ("--algorithm vtrace --algorithm.clip-high 0.1", "clip_high must be null, got 0.1"),
    ("--algorithm rae --algorithm.dual-clip 3", "rae clips .*dual_clip must be null, got 3.0"),
    ("--algorithm cispo --algorithm.dual-clip 3", "cispo clips .*dual_clip must be null, got 3.0"),
    ("--algorithm.max-weight 2", "grpo with algorithm.correction none .*must be 5.0, got 2.0"),
    (
        "--max-staleness 1 --algorithm.correction naive --algorithm.weight-level sequence",
        "correction naive .*weight_level must be .token., got .sequence.",
    ),
    (
        "--max-staleness 1 --algorithm vtrace --algorithm.on-larger-weight mask",
        "vtrace .*on_larger_weight must be .cap., got .mask.",
    ),
    ("--algorithm sft --algorithm.entropy-coefficient 0.1", "sft imitates: .*must be 0.0, got 0.1"),
    ("--algorithm sft --advantage.reward-scale 2", "sft imitates.*reward_scale must be 1.0, got 2"),
    ("--algorithm rloo --advantage.trace-decay 0.9", "no trace: .*must be 1.0, got 0.9"),
    ("--algorithm ppo --advantage.max-trace 2", "no V-trace: .*max_trace must be 1.0, got 2.0"),
    ("--algorithm grpo --advantage.baseline-decay 0.5", "running mean: .*must be 0.95, got 0.5"),
    ("--critic.lr-ratio 2", "no critic: critic.lr_ratio must be 1.0, got 2.0"),
    ("--algorithm remax --critic.value-clip 0", "no critic: critic.value_clip must be 0.2, got 0"),
]


@pytest.mark.parametrize(("flags", "message"), IDLE)
def test_a_constant_that_nothing_looks_at_is_refused_unless_it_has_its_default(flags, message):
    with pytest.raises(ValueError, match=message):
        check_algorithm(configured(flags))


@pytest.mark.parametrize(
    "flags",
    [
        "--algorithm cispo --algorithm.clip-high 2 --algorithm.clip-low 0.5",
        "--algorithm gspo --algorithm.dual-clip 3",
        "--algorithm rae --advantage.baseline-decay 0.5",
        "--algorithm ppo --advantage.trace-decay 0.9 --critic.lr-ratio 2 --learner.num-epochs 4",
        "--algorithm vtrace --advantage.max-trace 2 --critic.value-clip 0 --max-staleness 2",
        "--algorithm remax --advantage.normalisation group",
        "--algorithm reinforce --algorithm.correction decoupled --algorithm.max-weight 2",
        "--max-staleness 1 --algorithm.max-weight 2 --algorithm.weight-level geometric",
        "--algorithm reinforce --learner.num-minibatches 4",
        "--preference rft --algorithm reinforce --learner.num-epochs 2",
    ],
)
def test_what_is_looked_at_may_be_set(flags):
    check_algorithm(configured(flags))


def test_a_value_of_the_algorithms_own_is_written_and_read_as_null():
    assert configured("--algorithm.clip-low null").algorithm.clip_low is None
    assert configured("--algorithm.clip-low 0.1").algorithm.clip_low == 0.1
