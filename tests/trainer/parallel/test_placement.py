"""Where ranks are, and what they hold together."""

from dataclasses import replace

import pytest
from earl_selector import DeviceSpec, MemoryModel, ModelShape, ScoringMemory
from earl_trainer.parallel.placement import Placement

SHAPE = ModelShape(
    name="toy",
    num_layers=2,
    hidden_size=32,
    intermediate_size=64,
    num_heads=8,
    num_kv_heads=4,
    head_dim=4,
    vocab_size=64,
    tie_embeddings=True,
    qkv_bias=False,
)
MEMORY = MemoryModel(
    shape=SHAPE,
    device=DeviceSpec.cpu(200_000),
    # Two models, of which one generates.
    bytes_per_parameter=4,
    bytes_per_kv_value=2,
    utilisation=1.0,
    reserve_bytes=0,
)
PLACEMENT = Placement(num_ranks=4, degrees=(1, 2, 4), memory=MEMORY)


def test_ranks_left_over_are_further_engines_or_idle():
    assert [PLACEMENT.num_engines(tp) for tp in (1, 2, 4)] == [4, 2, 1]
    assert PLACEMENT.capacity_tokens(2) == 2 * MEMORY.capacity_tokens(2)
    single = replace(PLACEMENT, shares=False)
    assert [single.num_engines(tp) for tp in (1, 2, 4)] == [1, 1, 1]
    assert single.capacity_tokens(2) == MEMORY.capacity_tokens(2)


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_a_pass_has_the_memory_that_the_weights_of_the_models_leave(tp):
    scoring = ScoringMemory(
        shape=SHAPE, device=MEMORY.device, bytes_per_parameter=2, utilisation=1.0, num_models=2
    )
    assert PLACEMENT.pass_tokens(tp, num_models=2) == scoring.capacity_tokens(tp) > 0
    assert PLACEMENT.pass_tokens(tp, num_models=1) > PLACEMENT.pass_tokens(tp, num_models=2)
    whole = replace(PLACEMENT, memory=replace(MEMORY, splits_vocabulary=False))
    assert (whole.pass_tokens(tp, num_models=2) < scoring.capacity_tokens(tp)) == (tp > 1)
