"""A change of degree: what is in order, and what became of it in one line."""

from dataclasses import replace

import pytest
from earl_trainer.rollout.drift import Drift
from earl_trainer.rollout.switch import Switch, SwitchRules


@pytest.mark.parametrize(
    ("error", "problem"),
    [(1.05, ""), (1.0501, "token_mult_prob_error 1.0501 is above 1.05")],
)
def test_a_drift_above_the_bound_is_a_problem(error, problem):
    drift = Drift(
        num_tokens=1, mean_difference=0.1, max_difference=0.1, token_mult_prob_error=error
    )
    assert SwitchRules(max_token_error=1.05).judge(drift) == problem
    assert SwitchRules().judge(None) == "", "nothing was there to compare"


def test_a_switch_says_what_it_took_and_what_became_of_it():
    drift = Drift(
        num_tokens=3, mean_difference=1e-7, max_difference=2e-6, token_mult_prob_error=1.0
    )
    done = Switch(from_tp=1, to_tp=2, tp=2, switch_s=0.25, bytes_moved=1_000, drift=drift)
    assert done.done
    assert done.describe() == (
        "tp 1 -> 2: 0.25 s, 1,000 bytes of weights moved, drift 2.0e-06 at most"
    )
    folded = replace(done, with_weights=True, bytes_moved=0, drift=None)
    assert folded.describe() == "tp 1 -> 2: 0.25 s, 0 bytes of weights moved besides new ones"
    failed = Switch(from_tp=1, to_tp=2, tp=1, switch_s=0.25, problem="a rank is gone")
    assert not failed.done
    assert failed.describe() == "tp 1 -> 2 failed, still at tp 1: a rank is gone"
    flagged = Switch(from_tp=2, to_tp=1, tp=1, switch_s=0.5, problem="drifts")
    assert flagged.describe().endswith("; drifts")
