"""What filters and replay cannot do is refused by its rule."""

from dataclasses import replace

import pytest
from earl_envs import make_game
from earl_trainer.experience.check import check_experience, check_offline_tokens
from earl_trainer.experience.replay import Replay, ReplayRules
from earl_trainer.models.tiny import build_tokenizer
from earl_trainer.models.vocabulary import vocabulary_digest
from earl_trainer.overrides import parse_flags, resolve

REPLAY = "--experience.replay-share 0.5"


@pytest.fixture
def config(small_config):
    return lambda flags: resolve(small_config(), parse_flags(flags.split()))


@pytest.mark.parametrize(
    ("flags", "rule"),
    [
        ("--experience.filters truncated,truncated", "names each filter once"),
        ("--experience.filters length", "need one another: .*'length'"),
        ("--experience.min-tokens 3", "need one another: .*min_tokens = 3"),
        (
            "--experience.filters length --experience.min-tokens 3 --experience.max-tokens 2",
            "no episode is as long as it must be, got .* = 3, max_tokens = 2",
        ),
        (
            "--experience.filters zero-variance --rollout.group-size 1",
            "never vary: .* rollout.group_size >= 2, got 1",
        ),
        ("--experience.max-rounds 2", "max_rounds needs experience.filters, got 2 and none"),
        (f"{REPLAY} --experience.offline-share 0.5", "must be < 1, got 0.5 and 0.5"),
        (f"{REPLAY} --algorithm.correction none", "correction must not be none with"),
        (f"{REPLAY} --algorithm vtrace", "vtrace accounts for .* must be 0, got 0.5 and 0.0"),
        *(
            (
                f"--experience.filters zero-variance --algorithm {name}",
                f"from which {name} learns: .*grpo.*remax.*, got '{name}'",
            )
            for name in ("ppo", "reinforce", "rae")
        ),
        (f"{REPLAY} --rollout-workers 2", "need rollout_workers = 1, as one .*; got 2"),
        (
            f"{REPLAY} --selector.prepare-on ranks",
            "need selector.prepare_on = learner, .*; got ranks",
        ),
        ("--experience.offline-share 0.5", "need one another, got '' and 0.5"),
        (f"{REPLAY} --experience.offline-path x.pt", "need one another, got 'x.pt' and 0.0"),
        (
            "--experience.offline-share 0.5 --experience.offline-path none.pt",
            "no file experience.offline_path = 'none.pt'",
        ),
        ("--experience.curriculum random@", "a level looks like"),
        ("--experience.replay prioritised", "nothing is kept: experience.replay must be 'fifo'"),
        ("--experience.replay-rows 7", "nothing is kept: experience.replay_rows must be .* got 7"),
        (
            "--experience.replay-bytes 7",
            "nothing is kept: experience.replay_bytes must be",
        ),
        (
            "--experience.replay-max-staleness 7",
            "is kept: experience.replay_max_staleness",
        ),
        (
            f"{REPLAY} --experience.priority-exponent 0.5",
            "fifo draws all rows alike: experience.priority_exponent must be 0.6, got 0.5",
        ),
        (f"{REPLAY} --experience.importance-exponent 1", "alike: experience.importance_exponent"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_rule(config, flags, rule):
    with pytest.raises(ValueError, match=rule):
        check_experience(config(flags))


@pytest.fixture
def offline(tmp_path):
    """Write rows as another run leaves them, and return the flags that mix them in."""

    def write(rows, **origin):
        replay = Replay(ReplayRules(max_rows=2, max_bytes=10**6))
        replay.add(rows)
        path = tmp_path / "replay.pt"
        replay.save(path, origin={"game": "earl/TicTacToe-v0", **origin})
        return f"--experience.offline-share 0.5 --experience.offline-path {path}"

    return write


def test_offline_rows_have_to_fit_a_pass(config, offline, make_rows):
    flags = offline(make_rows([300, 4]))
    check_experience(config(flags))
    with pytest.raises(ValueError, match=r"at most learner\.max_micro.* = 299 .*, got 300"):
        check_experience(config(f"{flags} --learner.max-microbatch-tokens 299"))


def test_offline_rows_of_another_game_are_refused(config, offline, make_rows):
    flags = offline(make_rows([4, 4]), game="earl/Nim-v0")
    with pytest.raises(ValueError, match=r"must be of earl/TicTacToe-v0, got one of earl/Nim-v0"):
        check_experience(config(flags))


def test_offline_rows_without_returns_are_no_use_to_a_critic(config, offline, make_rows):
    rows = make_rows([4, 4])
    flags = f"{offline(rows)} --algorithm.name ppo"
    with pytest.raises(ValueError, match=r"with algorithm.name ppo .* of a run with a critic"):
        check_experience(config(flags))
    returns = {"returns": rows.per_token["advantages"]}
    offline(replace(rows, per_token={**rows.per_token, **returns}))
    check_experience(config(flags))


def test_offline_rows_of_other_tokens_are_refused(config, offline, make_rows, tiny_tokenizer):
    flags = offline(make_rows([4, 4]), vocabulary=vocabulary_digest(tiny_tokenizer))
    check_offline_tokens(config(flags), tiny_tokenizer)
    other = build_tokenizer(make_game("earl/ConnectFour-v0"), seed=0)
    with pytest.raises(
        ValueError, match=r"must be of a run with the same vocabulary, got '.*\.pt'"
    ):
        check_offline_tokens(config(flags), other)
    check_offline_tokens(config(""), other)
