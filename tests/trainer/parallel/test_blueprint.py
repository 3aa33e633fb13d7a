"""A model without its weights."""

import pickle

import torch
from earl_trainer.parallel.blueprint import Blueprint
from torch import nn


def test_a_built_model_computes_the_same_once_it_has_the_weights(kind, make_model):
    model = make_model(kind)
    built = pickle.loads(pickle.dumps(Blueprint.of(model))).build(torch.device("cpu"))
    assert all(parameter.is_meta for parameter in built.parameters())
    assert not built.training
    for name, parameter in model.named_parameters():
        owner, _, own_name = name.rpartition(".")
        nn.Module.get_submodule(built, owner)._parameters[own_name] = parameter
    built.tie_weights()
    ids = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(built(ids).logits, model(ids).logits)
