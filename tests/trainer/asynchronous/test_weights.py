import copy

import pytest
import torch
from earl_trainer.asynchronous.weights import (
    checksums,
    pack_weights,
    require_checksums,
    unpack_weights,
)
from earl_trainer.types import RunFailedError
from torch import nn


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_arrive_bit_for_bit_and_tied_ones_once(tiny_model, dtype):
    source = nn.Module.to(copy.deepcopy(tiny_model), dtype=dtype)
    target = copy.deepcopy(source)
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.mul_(1.25)
    packed = pack_weights(source)
    embedding = source.get_input_embeddings().weight
    assert sum(part.nbytes == embedding.nbytes for part in packed) == 1  # its head is tied to it
    unpack_weights(packed, target)
    ids = torch.tensor([[5, 6, 7]])
    assert torch.equal(source(ids).logits, target(ids).logits)
    assert target.get_output_embeddings().weight.data_ptr() == (
        target.get_input_embeddings().weight.data_ptr()
    )


def test_a_parameter_that_arrived_otherwise_is_named(tiny_model):
    sent = checksums(pack_weights(tiny_model))
    other = copy.deepcopy(tiny_model)
    require_checksums(other, sent)
    name, parameter = list(other.named_parameters())[3]
    with torch.no_grad():
        parameter.view(-1)[0] = 0.125
    with pytest.raises(RunFailedError, match=f"{name} arrived with checksum"):
        require_checksums(other, sent)
