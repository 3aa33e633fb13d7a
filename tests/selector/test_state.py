import json

from earl_selector import ContextReport, SelectorState


def test_state_survives_json():
    report = ContextReport(
        step=3,
        num_responses=4,
        mean_context_tokens=10.5,
        max_context_tokens=20,
        resident_tokens=42,
        rollout_s=1.5,
    )
    state = SelectorState(tp=2, reports=(report, report), switch_s=3.5, time_scale=1.25)
    assert SelectorState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
