"""Every field is described, bounded and reachable; nothing wrong gets in."""

from dataclasses import FrozenInstanceError, replace

import pytest
from earl_trainer.algorithms.config import AlgorithmConfig
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.config import ModelConfig, RunConfig
from earl_trainer.evaluation.config import EvaluationConfig
from earl_trainer.experience.config import ExperienceConfig
from earl_trainer.overrides import describe_fields, resolve, to_tree

BOUNDS = [
    ("rollout.num_episodes", 0, "greater than or equal to 1"),
    ("rollout.group_size", -3, "greater than or equal to 1"),
    ("rollout.temperature", 0, "greater than 0"),
    ("rollout.temperature", "nan", "finite number"),
    ("rollout.temperature", "inf", "finite number"),
    ("rollout.max_reply_tokens", 0, "greater than or equal to 1"),
    ("rollout.max_context_tokens", 2.5, "valid integer"),
    ("rollout.games_per_episode", 0, "greater than or equal to 1"),
    ("reward.illegal_penalty", -0.1, "greater than or equal to 0"),
    ("reward.truncation", "cut", "'keep', 'zero', 'mask' or 'bootstrap'"),
    ("algorithm.clip_low", 1.5, "less than or equal to 1"),
    ("algorithm.clip_high", 0, "greater than 0"),
    ("algorithm.kl_coefficient", -1, "greater than or equal to 0"),
    ("algorithm.aggregation", "mean", "'token-mean', 'sequence-mean'"),
    ("experience.replay_share", 1.0, "less than 1"),
    ("experience.offline_share", -0.1, "greater than or equal to 0"),
    ("experience.max_rounds", 0, "greater than or equal to 1"),
    ("experience.replay_rows", 0, "greater than or equal to 1"),
    ("experience.priority_exponent", 0, "greater than 0"),
    ("experience.importance_exponent", 1.5, "less than or equal to 1"),
    ("learner.num_steps", -1, "greater than or equal to 0"),
    ("learner.lr", "fast", "valid number"),
    ("learner.beta1", 1.0, "less than 1"),
    ("learner.beta2", 1.5, "less than 1"),
    ("learner.max_grad_norm", -1, "greater than or equal to 0"),
    ("learner.max_microbatch_tokens", 0, "greater than or equal to 1"),
    ("selector.memory_bytes", 0, "greater than or equal to 1"),
    ("evaluation.num_games", 0, "greater than or equal to 1"),
    ("evaluation.temperature", -1, "greater than or equal to 0"),
    ("model.dtype", "float16", "'float32' or 'bfloat16'"),
    ("model.num_layers", 0, "greater than or equal to 1"),
    ("tracking.wandb", "on", "'auto', 'online', 'offline' or 'disabled'"),
    ("tracking.keep_checkpoints", 0, "greater than or equal to 1"),
    ("seed", -1, "greater than or equal to 0"),
    ("seed", "x", "valid integer"),
]


def nested(field, value):
    *groups, name = field.split(".")
    tree = {name: value}
    for group in reversed(groups):
        tree = {group: tree}
    return tree


@pytest.mark.parametrize(("field", "value", "rule"), BOUNDS)
def test_a_value_out_of_bounds_is_refused_by_field_rule_and_value(field, value, rule):
    with pytest.raises(ValueError, match=r".") as refusal:
        resolve(RunConfig(), nested(field, value))

    message = str(refusal.value)
    assert message.startswith(f"{field}: ")
    assert rule in message
    assert message.endswith(f"got {value!r}")
    assert "\n" not in message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("learner.lr", 0),
        ("learner.num_steps", 0),
        ("warmup.num_steps", 0),
        ("evaluation.temperature", 0),
        ("algorithm.clip_low", 1),
    ],
)
def test_the_bounds_themselves_are_values(field, value):
    tree = to_tree(resolve(RunConfig(), nested(field, value)))
    for part in field.split("."):
        tree = tree[part]

    assert tree == value


def test_every_field_has_a_default_and_a_description():
    described = {name: (default, text) for name, default, text in describe_fields()}

    leaves = {
        f"{name}.{field}" if isinstance(value, dict) else name
        for name, value in to_tree(RunConfig()).items()
        for field in (value if isinstance(value, dict) else [""])
    }
    assert set(described) == leaves
    assert [name for name, (_, text) in described.items() if len(text) < 10] == []
    assert described["rollout.group_size"][0] == RunConfig().rollout.group_size


def test_configs_are_frozen_and_know_their_fields():
    with pytest.raises(FrozenInstanceError):
        RunConfig().seed = 1
    with pytest.raises(ValueError, match="hiden_size"):
        ModelConfig(hiden_size=3)


@pytest.mark.parametrize(
    ("max_staleness", "bound", "always", "correction", "is_asynchronous"),
    [
        (0, "admission", False, "none", False),
        # Workers that take turns with the learner use the weights that it is about to change.
        (0, "strict", True, "none", True),
        (0, "none", False, "decoupled", True),
        (1, "admission", False, "decoupled", True),
        (1, "admission", True, "decoupled", True),
    ],
)
def test_older_weights_are_corrected_for_where_there_may_be_any(
    max_staleness, bound, always, correction, is_asynchronous
):
    config = RunConfig(
        max_staleness=max_staleness, asynchronous=AsynchronousConfig(bound=bound, always=always)
    )
    assert (config.correction, config.is_asynchronous) == (correction, is_asynchronous)
    replays = replace(config, experience=ExperienceConfig(replay_share=0.5))
    assert replays.correction == "decoupled"
    named = replace(config, algorithm=AlgorithmConfig(correction="naive"))
    assert named.correction == "naive"


@pytest.mark.parametrize(
    ("opponent", "evaluation", "match_opponent"),
    [
        ("negamax:2", "auto", "negamax:2"),
        ("negamax:2", "random", "random"),
        ("self", "auto", "random"),
        ("pool:rating", "auto", "random"),
        ("pool:random,first", "auto", "pool:random,first"),
        ("self", "minimax", "minimax"),
    ],
)
def test_matches_are_against_the_opponent_unless_that_is_the_learner(
    opponent, evaluation, match_opponent
):
    config = RunConfig(opponent=opponent, evaluation=EvaluationConfig(opponent=evaluation))

    assert config.match_opponent == match_opponent
    assert config.self_play is (opponent == "self")
