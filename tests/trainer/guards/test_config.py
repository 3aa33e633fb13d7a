"""The section of guards."""

import pytest
from earl_trainer.config import RunConfig
from earl_trainer.overrides import resolve


def test_an_unknown_action_is_refused():
    with pytest.raises(ValueError, match=r"guards\.kl: .*roll-back.*got 'panic'"):
        resolve(RunConfig(), {"guards": {"kl": "panic"}})


def test_a_plateau_is_nothing_to_go_back_from():
    with pytest.raises(ValueError, match=r"guards\.plateau"):
        resolve(RunConfig(), {"guards": {"plateau": "roll-back"}})
