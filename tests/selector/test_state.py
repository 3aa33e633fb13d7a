import json

from earl_selector import ContextReport, SelectorState


def test_state_survives_json():
    report = ContextReport(
        step=3,
        num_responses=4,
        mean_context_tokens=10.5,
        max_context_tokens=20,
        resident_tokens=42,
    )
    state = SelectorState(tp=2, reports=(report, report), num_low_updates=1, low_peak_tokens=7)
    assert SelectorState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
