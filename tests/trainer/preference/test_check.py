import re

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.preference.check import check_preference
from earl_trainer.rules import check_config

REFUSALS = [
    (
        "--preference.data pairs.jsonl",
        "grpo learns from episodes and not from data: preference.data needs a preference.name, one "
        "of sft, rft, dpo,",
    ),
    ("--preference rft --preference.data a.jsonl", "rft learns from the policy's own games"),
    ("--preference dpo --rollout.group-size 1", "dpo pairs the episodes of a group"),
    ("--preference dpo --preference.margin 1", "dpo has no margin: preference.margin must be 0.0"),
    ("--preference ipo --preference.label-smoothing 0.1", "ipo has no label_smoothing"),
    ("--preference sft --preference.threshold 0.5", "sft has no threshold"),
    ("--preference dpo --preference.iterate-steps 2", "dpo has no iterate_steps"),
    ("--preference dpo --preference.desirable-weight 2", "dpo has no desirable_weight"),
    ("--preference dpo --max-staleness 1", "dpo needs generation and learning to take turns"),
    (
        "--preference kto --algorithm.kl-coefficient 0.1",
        "kto does not learn from rewards: algorithm.kl_coefficient must be 0.0, got 0.1",
    ),
    ("--preference dpo --algorithm rloo", "algorithm.name must be 'grpo', got 'rloo'"),
    ("--preference sft --advantage.reward-scale 2", "advantage.reward_scale must be 1.0, got 2.0"),
    ("--preference dpo --experience.replay-share 0.5", "experience.replay_share must be 0.0"),
    ("--preference rft --experience.filters duplicates", "experience.filters must be"),
    (
        "--preference dpo --algorithm.aggregation sequence-mean --warmup.num-steps 0",
        "dpo does not learn from rewards: algorithm.aggregation must be null",
    ),
    (
        "--preference dpo --guards.kl stop",
        "dpo does not tell the divergence of updates: guards.kl must be 'off', got 'stop'",
    ),
    ("--preference sft --guards.max-update-kl 0.1", "guards.max_update_kl must be 0.0, got 0.1"),
    ("--preference dpo --guards.normalise-rewards scale", "guards.normalise_rewards must be 'off'"),
    ("--preference dpo --guards.entropy stop", "dpo does not tell the entropy: guards.entropy"),
    ("--preference sft --guards.plateau stop", "sft does not tell rewards of its own games"),
    (
        "--preference dpo --preference.data a.jsonl --guards.plateau stop",
        "dpo does not tell rewards of its own games: guards.plateau must be 'off', got 'stop'",
    ),
    (
        "--preference spin --learner.max-microbatch-tokens 511",
        "learner.max_microbatch_tokens must be at least twice rollout.max_context_tokens, 512, got "
        "511",
    ),
    ("--preference sft --preference.player nobody", "unknown opponent 'nobody'"),
]


@pytest.mark.parametrize(("flags", "message"), REFUSALS)
def test_what_does_not_fit_is_refused_with_its_rule(flags, message):
    config = resolve(RunConfig(), parse_flags(flags.split()))
    with pytest.raises(ValueError, match=re.escape(message)):
        check_config(config)


@pytest.mark.parametrize(
    "flags",
    [
        "",
        "--preference dpo --preference.label-smoothing 0.1",
        "--preference spin --preference.label-smoothing 0.1 --preference.iterate-steps 2",
        "--preference simpo --preference.margin 1",
        "--preference kto --preference.threshold 0.5 --preference.desirable-weight 2",
        "--preference sft --rollout.group-size 1",
        "--preference dpo --algorithm.aggregation sequence-mean",
        "--preference rft --algorithm.aggregation sequence-mean --warmup.num-steps 0",
        "--preference dpo --guards.gradient stop --guards.loss-spike roll-back",
        "--preference dpo --guards.plateau stop --guards.entropy off",
        "--preference sft --guards.entropy stop",
        # Data are no episodes: there is no group.
        "--preference dpo --preference.data a.jsonl --rollout.group-size 1",
    ],
)
def test_what_fits_is_accepted(flags):
    check_preference(resolve(RunConfig(), parse_flags(flags.split())))
