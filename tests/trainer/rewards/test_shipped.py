"""Every name leads to a function that a transcript can be handed to."""

import pytest
from earl_trainer.rewards.function import load_function, parse_functions
from earl_trainer.rewards.shipped import SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_a_short_name_is_a_function_of_that_name(name):
    (function,) = parse_functions([f"{name}=0.5"])
    assert (function.name, function.weight) == (name, 0.5)
    assert callable(load_function(function.target))
