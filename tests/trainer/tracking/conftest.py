"""Records as a run would make them."""

import pytest
from earl_trainer.evaluation.checkup import Checkup, CheckupHistory, pair_result
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.metrics import StepRecord

METRICS = {
    "reward/mean": -0.37,
    "game/win_rate": 0.41,
    "game/draw_rate": 0.13,
    "game/loss_rate": 0.46,
    "game/illegal_rate": 0.0725,
    "context/mean_tokens": 47.4,
    "context/max_tokens": 63.0,
    "context/resident_tokens": 12345.0,
    "context/truncated_share": 0.021,
    "context/cut_share": 0.014,
    "selector/tp": 1.0,
    "selector/capacity_tokens": 20000.0,
    "policy/kl": 0.0123,
    "policy/clip_fraction": 0.034,
    "policy/grad_norm": 1.27,
    "time/step_s": 2.0,
    "rate/rollout_tokens_per_s": 5432.1,
    "rate/prepare_tokens_per_s": 98765.4,
    "rate/update_tokens_per_s": 2109.8,
}


@pytest.fixture
def make_record():
    def make(step=6, *, phase="rl", without=(), **changes):
        metrics = {name: METRICS[name] for name in METRICS if name not in without}
        return StepRecord(
            step=step,
            phase=phase,
            decision="only degree: holds 5 of 9 tokens",
            decision_json='{"tp": 1}',
            metrics=metrics | changes,
        )

    return make


@pytest.fixture
def match():
    return MatchResult(
        games=400,
        win_rate=0.613,
        win_rate_low=0.5639,
        win_rate_high=0.659,
        draw_rate=0.125,
        loss_rate=0.261,
        illegal_rate=0.008,
    )


@pytest.fixture
def checkup(match):
    return Checkup(
        step=20,
        matches={"random": match},
        past_selves={},
        ratings=CheckupHistory(results=(pair_result("step-000020", "random", match),)).ratings(
            "random"
        ),
        optimal=None,
    )
