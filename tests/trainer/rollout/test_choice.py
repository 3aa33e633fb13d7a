"""What a step is told of its rollout."""

import pickle

from earl_selector import Decision, SelectorState
from earl_trainer.rollout.choice import Choice


def test_a_choice_stands_as_it_was_made():
    choice = Choice(
        decision=Decision(
            tp=2,
            previous_tp=1,
            reason="grows",
            forecast_tokens=9,
            capacity_tokens=12,
            feasible=(2,),
            steps_to_limit=None,
        ),
        selector=SelectorState(tp=2, reports=()),
        switch=None,
        share_tokens=7,
    )
    assert pickle.loads(pickle.dumps(choice)) == choice
    assert choice.decision.switches
