"""Where a run stands survives being written down."""

import json

from earl_selector import ContextReport, SelectorState
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.run_state import RunState

RESULT = MatchResult(
    games=10,
    win_rate=0.5,
    win_rate_low=0.2,
    win_rate_high=0.8,
    draw_rate=0.1,
    loss_rate=0.4,
    illegal_rate=0.0,
)


def test_a_state_survives_the_trip_through_json():
    report = ContextReport(
        step=6,
        num_responses=3,
        mean_context_tokens=4.5,
        max_context_tokens=7,
        resident_tokens=12,
    )
    state = RunState(
        step=7,
        selector=SelectorState(tp=1, reports=(report,), switch_s=0.5, time_scale=2.0),
        report=report,
        preparation={"num_steps": 3},
        evaluations={"initial": (0, RESULT), "before": (6, RESULT)},
    )
    assert RunState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
