"""What does not fit together is refused before anything starts, by rule and number."""

import re

import pytest
from earl_trainer.config import RunConfig, SelectorConfig
from earl_trainer.engines import make_selector
from earl_trainer.overrides import parse_flags, resolve
from earl_trainer.rules import (
    check_config,
    check_context,
    check_resumable,
)

REFUSALS = [
    (
        "--env earl/TicTacTo-v0",
        "unknown game 'earl/TicTacTo-v0'; did you mean 'earl/TicTacToe-v0'?",
    ),
    ("--opponent rnadom", "unknown opponent 'rnadom'; did you mean 'random'?"),
    ("--opponent negamax:0", "DEPTH must be a whole number >= 1, got '0'"),
    ("--evaluation.opponent slef", "unknown opponent 'slef'"),
    (
        "--rollout-workers 129",
        "every worker plays a table of each step: rollout_workers must be at most the 128 tables "
        "of the smallest step, got 129",
    ),
    (
        "--opponent self --rollout-workers 65",
        "every worker plays a table of each step: rollout_workers must be at most the 64 tables",
    ),
    (
        "--opponent self --rollout.num-episodes 48",
        "rollout.num_episodes must be a multiple of rollout.group_size times the 2 seats of "
        "self-play, got 48 and 16",
    ),
    (
        "--opponent self --warmup.num-episodes 33",
        "warmup.num_episodes must be a multiple of the 2 seats of self-play, got 33",
    ),
    ("--warmup.player nobody", "unknown opponent 'nobody'"),
    ("--algorithm gropo", "unknown algorithm 'gropo'; did you mean 'grpo'?"),
    ("--model tinny", "unknown model 'tinny'; did you mean 'tiny'?"),
    (
        "--rollout.num-episodes 100",
        "rollout.num_episodes must be a multiple of rollout.group_size, got 100 and 16",
    ),
    (
        "--rollout.group-size 1",
        "grpo compares the episodes of a group: rollout.group_size must be >= 2, got 1",
    ),
    (
        "--rollout.num-episodes 16 --learner.num-minibatches 17",
        "rollout.num_episodes must be >= learner.num_minibatches, got 16 and 17",
    ),
    (
        "--warmup.num-episodes 1",
        "warmup.num_episodes must be >= learner.num_minibatches, got 1 and 2",
    ),
    (
        "--evaluation.num-games 401",
        "evaluation.num_games must be a multiple of the game's 2 seats, got 401",
    ),
    (
        "--selector.prepare-on ranks",
        "selector.prepare_on ranks needs several ranks of the engine transformers, got "
        "selector.num_devices = 1",
    ),
    (
        "--selector.policy fixed --selector.num-devices 2 --selector.tp-degrees 1,2",
        "selector.policy fixed keeps one degree: selector.tp_degrees must name one, got (1, 2)",
    ),
    (
        "--selector.policy earl",
        "selector.policy earl chooses a degree: selector.tp_degrees must name several, got (1,)",
    ),
    (
        "--selector.policy throttle --max-staleness 1",
        "selector.policy throttle needs max_staleness 0, an asynchronous.bound other than none and "
        "asynchronous.always False, got 1, admission and False",
    ),
    (
        "--selector.policy throttle --asynchronous.always true",
        "selector.policy throttle needs max_staleness 0, an asynchronous.bound other than none and "
        "asynchronous.always False, got 0, admission and True",
    ),
    (
        "--asynchronous.always true --learner-workers 2",
        "with max_staleness 0, asynchronous.bound admission and asynchronous.always True, "
        "learner_workers must be 1, as one process learns; got 2",
    ),
    (
        "--selector.policy throttle --rollout.overflow cut",
        "selector.policy throttle needs rollout.overflow queue, got cut",
    ),
    (
        "--selector.policy throttle --rollout-workers 2",
        "selector.policy throttle needs rollout_workers 1, got 2",
    ),
    (
        "--rollout-workers 2 --selector.num-devices 2",
        "a run has several workers that play or several ranks that generate, not both",
    ),
    (
        "--rollout.engine vllm --selector.num-devices 2",
        "vLLM runs as one engine: rollout.engine vllm with several ranks needs",
    ),
    (
        "--rollout.engine vllm --selector.on-drift refuse",
        "vLLM does not take a switch back: with rollout.engine vllm selector.on_drift must be flag",
    ),
    (
        "--rollout.engine vllm --rollout-workers 2",
        "vLLM spreads over processes of its own: with rollout.engine vllm rollout_workers must be",
    ),
    (
        "--rollout.max-context-tokens 600 --learner.max-microbatch-tokens 599",
        "a sequence is computed in one piece: learner.max_microbatch_tokens must be at least "
        "rollout.max_context_tokens = 600, got 599",
    ),
    (
        "--reward.functions my_rewards.brevity",
        "a reward function is written package.module:function=weight with a finite weight, or is "
        "one of exact_form, reply_tokens, optimal_moves, mathematics, unit_tests, got "
        "'my_rewards.brevity'",
    ),
    (
        "--reward.functions a:style,b:style=2",
        "reward functions must differ in name, got 'style' twice",
    ),
    (
        "--reward.game-weight 0 --reward.functions a:style=0",
        "something must be rewarded: reward.game_weight or the weight of a function, a model or "
        "the judge must not be 0",
    ),
    (
        "--model.hidden-size 130",
        "model.hidden_size must be an even multiple of model.num_heads, got 130 and 4",
    ),
    (
        "--model.hidden-size 12",
        "model.hidden_size must be an even multiple of model.num_heads, got 12 and 4",
    ),
]


def configured(flags):
    return resolve(RunConfig(), parse_flags(flags.split()))


@pytest.mark.parametrize(("flags", "message"), REFUSALS)
def test_a_config_that_breaks_a_rule_is_refused_in_one_line(flags, message):
    with pytest.raises(ValueError, match=r".") as refusal:
        check_config(configured(flags))

    assert str(refusal.value).startswith(message)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "flags",
    [
        "--env earl/ConnectFour-v0",
        "--algorithm sft --rollout.group-size 1",
        "--rollout.num-episodes 2 --rollout.group-size 2",
        "--warmup.num-episodes 2",
        "--evaluation.num-games 2",
        "--rollout-workers 128 --learner-workers 1000",
        "--model.hidden-size 8",
        "--rollout.max-context-tokens 600 --learner.max-microbatch-tokens 600",
        "--opponent self",
        "--opponent pool:recency",
        "--opponent pool:rating --evaluation.opponent negamax:2",
        "--opponent pool:random,first",
        "--opponent minimax",
        "--reward.functions a:style --reward.game-weight 0",
    ],
)
def test_a_config_at_the_edge_of_the_rules_passes(flags):
    check_config(configured(flags))


def test_a_context_of_exactly_one_turn_passes_and_a_smaller_one_does_not(
    tic_tac_toe, tiny_chat, tiny_model
):
    check_context(configured("--rollout.max-context-tokens 15"), tic_tac_toe, tiny_chat, tiny_model)
    with pytest.raises(ValueError, match=r".") as refusal:
        check_context(
            configured("--rollout.max-context-tokens 14"), tic_tac_toe, tiny_chat, tiny_model
        )

    assert str(refusal.value) == (
        "rollout.max_context_tokens must hold one turn: a prompt of 11 tokens and a reply of 4 "
        "need 15, got 14"
    )


def test_a_share_of_the_memory_that_one_turn_fits_passes_and_a_smaller_one_does_not(
    tic_tac_toe, tiny_chat, tiny_model
):
    def check(flags, capacity_tokens):
        config = configured(f"--rollout.overflow cut {flags}")
        check_context(config, tic_tac_toe, tiny_chat, tiny_model, capacity_tokens=capacity_tokens)

    # A prompt of 11 tokens and a reply of 4, for each of 256 episodes.
    check("", 256 * 15)
    check("--rollout-workers 2", 128 * 15)
    check("--rollout.overflow queue", 256 * 14)
    check("--warmup.num-episodes 300 --warmup.num-steps 0", 256 * 15)
    with pytest.raises(ValueError, match=r".") as refusal:
        check("--selector.memory-bytes 5000000", 256 * 15 - 1)

    assert str(refusal.value) == (
        "with rollout.overflow cut, an equal share of the memory must hold one turn of 15 tokens: "
        "the 3,839 tokens of selector.memory_bytes = 5,000,000 leave 14 to each of "
        "rollout.num_episodes = 256"
    )
    with pytest.raises(ValueError, match=r"leave 12 to each of warmup\.num_episodes = 300$"):
        check("--warmup.num-episodes 300", 256 * 15)


def test_games_that_cannot_fit_the_context_are_noted(tic_tac_toe, tiny_chat, tiny_model):
    def note(num_games, limit):
        flags = f"--rollout.games-per-episode {num_games} --rollout.max-context-tokens {limit}"
        return check_context(configured(flags), tic_tac_toe, tiny_chat, tiny_model)

    # A prompt of 11 tokens, then nine turns of 13 each: five turns a game.
    assert note(2, 128) is None
    assert note(2, 127) == (
        "2 games of 9 moves take about 128 tokens, more than rollout.max_context_tokens = 127: "
        "episodes of games that long are cut"
    )
    assert note(1, 15) is None


def test_a_context_beyond_the_models_positions_is_refused(tic_tac_toe, tiny_chat, tiny_model):
    check_context(
        configured("--rollout.max-context-tokens 256"), tic_tac_toe, tiny_chat, tiny_model
    )
    with pytest.raises(ValueError, match=r".") as refusal:
        check_context(
            configured("--rollout.max-context-tokens 257"), tic_tac_toe, tiny_chat, tiny_model
        )

    assert str(refusal.value) == (
        "rollout.max_context_tokens must be at most the model's 256 positions, got 257"
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            SelectorConfig(tp_degrees=(3,), num_devices=3),
            "tp 3 does not divide the model's 4 attention heads (valid: 1, 2, 4)",
        ),
        (
            SelectorConfig(tp_degrees=(1, 2)),
            "selector.num_devices must be a multiple of every degree, got 1 and tp 2",
        ),
        (
            SelectorConfig(memory_bytes=1000),
            "holds one context of 256 tokens on cpu with 1,000 bytes",
        ),
    ],
)
def test_a_degree_that_cannot_run_is_refused(config, message, tiny_model):
    with pytest.raises(ValueError, match=r".") as refusal:
        make_selector(RunConfig(selector=config), tiny_model)

    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_resumed_run_keeps_what_its_past_depends_on():
    saved = RunConfig()
    longer = {
        "learner": {"num_steps": 500},
        "model": {"device": "cpu"},
        "tracking": {"wandb": "disabled"},
        "reward": {"wall_s": 60.0, "num_processes": 4},
    }
    check_resumable(saved, resolve(saved, longer))
    for flag, said in (
        ("--seed 1", "--resume keeps seed at 0, got 1"),
        ("--env earl/ConnectFour-v0", "--resume keeps env at 'earl/TicTacToe-v0', got"),
        ("--model.hidden-size 64", "--resume keeps model.hidden_size at 128, got 64"),
        ("--algorithm.kl-coefficient 0.1", "--resume keeps algorithm.kl_coefficient at 0.0"),
        ("--reward.functions a:style", "--resume keeps reward.functions at [], got ['a:style']"),
        ("--learner.beta1 0.5", "--resume keeps learner.beta1 at 0.9, got 0.5"),
    ):
        with pytest.raises(ValueError, match=re.escape(said)):
            check_resumable(saved, resolve(saved, parse_flags(flag.split())))
