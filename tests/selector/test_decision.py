import pytest
from earl_selector import Decision


@pytest.mark.parametrize(
    ("previous_tp", "tp", "switches"), [(None, 4, False), (4, 4, False), (4, 8, True)]
)
def test_only_a_change_of_degree_is_a_switch(previous_tp, tp, switches):
    decision = Decision(
        tp=tp,
        previous_tp=previous_tp,
        reason="any",
        forecast_tokens=1,
        capacity_tokens=2,
        feasible=(tp,),
        steps_to_limit=None,
    )
    assert decision.switches == switches
    assert not decision.queues
