"""The contract of guards holds for every one of them."""

from dataclasses import FrozenInstanceError

import pytest
from earl_trainer.guards.bounds import LastingBreach
from earl_trainer.guards.guard import Guard
from earl_trainer.guards.hacking import RewardHacking
from earl_trainer.guards.plateau import RewardPlateau
from earl_trainer.guards.spike import LossSpike
from hypothesis import given
from hypothesis import strategies as st

GUARDS = (
    LastingBreach(figure="policy/kl", high=0.5, num_steps=3),
    RewardHacking(least_drop=0.1, num_checkups=2, every_steps=3),
    RewardPlateau(least_gain=0.1, num_steps=3),
    LossSpike(deviations=3.0, num_steps=4),
)
FIGURE = st.floats(-2.0, 2.0)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: type(guard).__name__)
@given(data=st.data())
def test_what_is_found_shows_in_the_steps_that_were_looked_at(guard, data):
    assert isinstance(guard, Guard)
    row = st.tuples(*[FIGURE] * len(guard.figures))
    rows = data.draw(st.lists(row, min_size=1, max_size=guard.num_rows))
    evidence = guard.judge(rows)
    assert evidence is None or 1 <= evidence.num_steps <= len(rows)
    assert evidence == guard.judge(rows), "it remembers nothing"


def test_a_guard_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        GUARDS[0].high = 1.0
