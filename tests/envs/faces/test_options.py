"""Checks of what callers pass."""

import numpy as np
import pytest
from earl_envs.faces.options import as_action, check_options


def test_unknown_options_are_refused_and_the_valid_ones_named():
    check_options(None)
    check_options({})
    check_options({"reset_mask": 1}, ("reset_mask",))
    with pytest.raises(ValueError, match=r"no option 'speed' \(valid: reset_mask\)"):
        check_options({"speed": 1}, ("reset_mask",))
    with pytest.raises(ValueError, match=r"no option 'speed' \(valid: none\)"):
        check_options({"speed": 1})


@pytest.mark.parametrize("action", [3, np.int64(3), np.uint8(3), np.array(3)])
def test_integers_of_all_kinds_are_actions(action):
    assert as_action(action) == 3
    assert type(as_action(action)) is int


@pytest.mark.parametrize("action", [True, np.True_, 3.0, "3", None, [3], np.array([3, 4])])
def test_nothing_else_is_an_action(action):
    with pytest.raises(ValueError, match="an action must be an integer, got"):
        as_action(action)
