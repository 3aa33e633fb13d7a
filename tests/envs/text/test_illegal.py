"""Illegal-move policies: the verdict on every wrong reply of a turn."""

import pytest
from earl_envs.text.illegal import Verdict, make_illegal_policy


@pytest.mark.parametrize(
    ("spec", "verdicts"),
    [
        ("forfeit", [Verdict.FORFEIT]),
        ("retry(1)", [Verdict.EXPLAIN, Verdict.FORFEIT]),
        ("retry(3)", [Verdict.EXPLAIN] * 3 + [Verdict.FORFEIT]),
        ("noop", [Verdict.REPEAT]),
        ("random_legal", [Verdict.SUBSTITUTE]),
    ],
)
def test_verdicts_in_one_turn(spec, verdicts):
    policy = make_illegal_policy(spec)
    assert [policy.decide(n + 1) for n in range(len(verdicts))] == verdicts


@pytest.mark.parametrize(
    ("spec", "nearest"),
    [("forfiet", "forfeit"), ("retry(0)", "retry(2)"), ("retry", "retry(2)"), ("no-op", "noop")],
)
def test_unknown_policy_is_refused_with_the_nearest(spec, nearest):
    with pytest.raises(ValueError, match="unknown illegal-move policy") as caught:
        make_illegal_policy(spec)
    assert f"did you mean {nearest!r}?" in str(caught.value)
