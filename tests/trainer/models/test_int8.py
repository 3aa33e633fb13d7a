"""Linear layers in 8 bits: how far they are off, and what they take."""

import pytest
import torch
from earl_trainer.models.int8 import Int8Linear, quantise, weight_bytes
from hypothesis import given
from hypothesis import strategies as st
from torch import nn


def make_layer(seed, *, inputs=16, outputs=8, scale=1.0, bias=True):
    rng = torch.Generator().manual_seed(seed)
    layer = nn.Linear(inputs, outputs, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(scale * torch.randn(outputs, inputs, generator=rng))
    return layer


@given(st.integers(0, 10_000), st.sampled_from([1e-4, 1.0, 1e4]))
def test_no_weight_is_off_by_more_than_half_a_step(seed, scale):
    layer = make_layer(seed, scale=scale)
    quantised = Int8Linear(layer)
    step = layer.weight.abs().amax(dim=1, keepdim=True) / 127
    error = (quantised.quantised.float() * quantised.scale - layer.weight).abs()
    assert (error <= step * (0.5 + 1e-4)).all()
    assert quantised.quantised.abs().max() == 127


def test_its_products_are_those_of_the_unpacked_weights_and_differ_within_the_bound():
    layer = make_layer(1)
    quantised = Int8Linear(layer)
    inputs = torch.randn(5, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        exact, found = layer(inputs), quantised(inputs)
    step = layer.weight.abs().amax(dim=1) / 127
    bound = 0.5 * step * inputs.abs().sum(dim=1, keepdim=True)
    assert ((found - exact).abs() <= bound + 1e-5).all()
    assert (found - exact).abs().max() > 1e-4


def test_a_row_of_zeros_stays_one():
    layer = make_layer(0, bias=False)
    with torch.no_grad():
        layer.weight[3].zero_()
    assert (Int8Linear(layer)(torch.ones(1, 16))[0, 3] == 0).all()


def test_a_models_body_takes_about_a_quarter_and_says_nearly_the_same(make_llama):
    model, quantised = make_llama(), quantise(make_llama())
    ids = torch.tensor([[1, 2, 3, 4, 5]])
    with torch.no_grad():
        exact, found = (each(ids).logits.log_softmax(-1) for each in (model, quantised))
    assert 1e-5 < (found - exact).abs().max() < 0.1
    assert torch.equal(quantised.lm_head.weight, model.lm_head.weight)
    linears = sum(
        each.weight.numel() for each in model.base_model.modules() if type(each) is nn.Linear
    )
    scales = sum(
        each.out_features for each in model.base_model.modules() if type(each) is nn.Linear
    )
    assert weight_bytes(model) - weight_bytes(quantised) == 3 * linears - 4 * scales
    assert not any(type(each) is nn.Linear for each in quantised.base_model.modules())


def test_what_has_no_linear_layer_is_refused(make_gpt2):
    with pytest.raises(ValueError, match="GPT2LMHeadModel has none"):
        quantise(make_gpt2())
