import math

import pytest
import torch
from earl_trainer.models.finite import check_finite
from earl_trainer.types import NonFiniteWeightsError


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite_is_found_and_named(make_llama, value):
    model = make_llama()
    check_finite("policy", model)
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[3, 2] = value
    with pytest.raises(NonFiniteWeightsError, match=r"of the policy .*layers\.1\.mlp\.up_proj"):
        check_finite("policy", model)
