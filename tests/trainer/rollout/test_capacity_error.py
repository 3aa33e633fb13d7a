"""A request that does not fit, as a profile and a run see it."""

import pickle

import pytest
from earl_trainer.rollout.capacity_error import CapacityError
from earl_trainer.types import RunFailedError


@pytest.mark.parametrize("kind", [RunFailedError, ValueError])
def test_it_ends_a_run_in_one_line_and_counts_for_a_profile_as_a_load_that_does_not_run(kind):
    with pytest.raises(kind, match="9 tokens are too many"):
        raise CapacityError("9 tokens are too many")
    assert isinstance(pickle.loads(pickle.dumps(CapacityError("9"))), kind), "between processes"
