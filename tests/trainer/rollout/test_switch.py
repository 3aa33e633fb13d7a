"""A change of degree in one line."""

from earl_trainer.rollout.drift import Drift
from earl_trainer.rollout.switch import Switch


def test_a_switch_says_what_it_took_and_what_became_of_it():
    drift = Drift(
        num_tokens=3, mean_difference=1e-7, max_difference=2e-6, token_mult_prob_error=1.0
    )
    done = Switch(from_tp=1, to_tp=2, tp=2, switch_s=0.25, bytes_moved=1_000, drift=drift)
    assert done.done
    assert done.describe() == (
        "tp 1 -> 2: 0.25 s, 1,000 bytes of weights moved, drift 2.0e-06 at most"
    )
    failed = Switch(from_tp=1, to_tp=2, tp=1, switch_s=0.25, problem="a rank is gone")
    assert not failed.done
    assert failed.describe() == "tp 1 -> 2 failed, still at tp 1: a rank is gone"
    flagged = Switch(from_tp=2, to_tp=1, tp=1, switch_s=0.5, problem="drifts")
    assert flagged.describe().endswith("; drifts")
