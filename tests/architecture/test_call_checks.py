"""In tests every call is checked against its annotations, shapes included."""

import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation
from earl_envs import make_game
from earl_selector.trend import find_growth
from earl_trainer.algorithms.kl import k1
from jaxtyping import TypeCheckError


@pytest.mark.parametrize("call", [make_game, find_growth])
def test_arguments_of_another_type_are_refused(call):
    with pytest.raises(BeartypeCallHintParamViolation):
        call(3)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(TypeCheckError):
        k1(torch.zeros(3), torch.zeros(4))
