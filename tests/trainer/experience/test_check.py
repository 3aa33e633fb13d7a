"""What filters and replay cannot do is refused by its rule."""

import pytest
from earl_trainer.experience.check import check_experience
from earl_trainer.experience.replay import Replay, ReplayRules
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
    ],
)
def test_what_does_not_fit_is_refused_by_its_rule(config, flags, rule):
    with pytest.raises(ValueError, match=rule):
        check_experience(config(flags))


def test_offline_rows_have_to_fit_a_pass(config, tmp_path, make_rows):
    replay = Replay(ReplayRules(max_rows=2, max_bytes=10**6))
    replay.add(make_rows([300, 4]))
    path = tmp_path / "replay.pt"
    replay.save(path)
    offline = f"--experience.offline-share 0.5 --experience.offline-path {path}"
    check_experience(config(offline))
    with pytest.raises(ValueError, match=r"at most learner\.max_micro.* = 299 .*, got 300"):
        check_experience(config(f"{offline} --learner.max-microbatch-tokens 299"))
