import json

from earl_selector import ContextReport, Refusal, SelectorState

REPORT = ContextReport(
    step=3,
    num_responses=4,
    mean_context_tokens=10.5,
    max_context_tokens=20,
    resident_tokens=42,
    rollout_s=1.5,
)


def test_state_survives_json():
    state = SelectorState(
        tp=2,
        reports=(REPORT, REPORT),
        switch_s=3.5,
        time_scale=1.25,
        refusals=(Refusal(tp=4, step=2, num_times=3),),
    )
    assert SelectorState.from_dict(json.loads(json.dumps(state.to_dict()))) == state


def test_what_the_engine_did_not_take_is_remembered_with_when_and_how_often():
    before = SelectorState(tp=2, reports=())
    once = before.refuse(1)
    assert (once.tp, once.refusals) == (1, (Refusal(tp=2, step=-1),))
    assert before.refusals == ()
    again = SelectorState(tp=2, reports=(REPORT,), refusals=once.refusals).refuse(1)
    assert again.refusals == (Refusal(tp=2, step=3, num_times=2),)
    other = SelectorState(tp=4, reports=(REPORT,), refusals=again.refusals).refuse(1)
    assert other.refusals == (*again.refusals, Refusal(tp=4, step=3))
