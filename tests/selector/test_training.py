from dataclasses import replace

import pytest
from earl_selector import MODEL_SHAPES
from earl_selector.activations import Recompute, layer_activation_bytes
from earl_selector.sharding import rank_shape
from earl_selector.training import Roles, TrainingMemory, lora_parameters
from hypothesis import given
from hypothesis import strategies as st

LLAMA = MODEL_SHAPES["llama-3.1-8b"]
NUM_PARAMETERS = 8_030_261_248
PLAIN = TrainingMemory(shape=LLAMA)
BATCH = {"num_sequences": 2, "context_tokens": 1024}


def test_a_parameter_takes_sixteen_bytes_with_adam_in_mixed_precision():
    # Rajbhandari et al. 2020, section 3.1: 2 + 2 + 12.
    taken = PLAIN.estimate(**BATCH)
    assert taken.weights == taken.gradients == 2 * NUM_PARAMETERS
    assert taken.optimizer == 12 * NUM_PARAMETERS
    assert taken.frozen == taken.host == 0


@pytest.mark.parametrize(("zero_stage", "weights", "gradients", "optimizer"),
                         [(0, 1, 1, 1), (1, 1, 1, 8), (2, 1, 8, 8), (3, 8, 8, 8)])  # fmt: skip
def test_zero_partitions_optimizer_then_gradients_then_weights(
    zero_stage, weights, gradients, optimizer
):
    taken = replace(PLAIN, dp=8, zero_stage=zero_stage).estimate(**BATCH)
    assert taken.weights == 2 * NUM_PARAMETERS // weights
    assert taken.gradients == 2 * NUM_PARAMETERS // gradients
    assert taken.optimizer == 12 * NUM_PARAMETERS // optimizer


def test_total_is_what_lies_on_the_device():
    roles = Roles(reference=True, reward=True, offload_frozen=True)
    taken = replace(PLAIN, roles=roles, offload_optimizer=True).estimate(**BATCH)
    parts = (taken.weights, taken.gradients, taken.activations, taken.logits)
    assert taken.total == sum(parts)
    assert taken.optimizer == taken.frozen == 0
    head = 128_255 * 4096
    assert taken.host == 12 * NUM_PARAMETERS + 2 * NUM_PARAMETERS + 2 * (NUM_PARAMETERS - head)


def test_frozen_models_take_weights_and_a_value_model_takes_all_that_the_policy_takes():
    backbone = NUM_PARAMETERS - 128_255 * 4096
    frozen = replace(PLAIN, roles=Roles(reference=True, reward=True)).estimate(**BATCH)
    assert frozen.frozen == 2 * NUM_PARAMETERS + 2 * backbone
    value = replace(PLAIN, roles=Roles(value=True)).estimate(**BATCH)
    assert value.optimizer == 12 * (NUM_PARAMETERS + backbone)
    assert value.weights == 2 * (NUM_PARAMETERS + backbone)


def test_lora_trains_its_adapters_alone_and_needs_no_reference():
    lora = replace(PLAIN, lora_rank=16, roles=Roles(reference=True)).estimate(**BATCH)
    # Of each layer: q and o 4,096 + 4,096; k and v 4,096 + 1,024; gate, up, down 4,096 + 14,336.
    num_adapters = 32 * 16 * (2 * 8192 + 2 * 5120 + 3 * 18_432)
    assert lora_parameters(LLAMA, 16) == num_adapters == 41_943_040
    assert lora.weights == 2 * (NUM_PARAMETERS + num_adapters)
    assert (lora.gradients, lora.optimizer) == (2 * num_adapters, 12 * num_adapters)
    assert lora.frozen == 0


def test_all_layers_are_kept_or_one_and_the_inputs_of_all():
    arguments = {"num_tokens": 2048, "context_tokens": 1024, "bytes_per_value": 2}
    layer = layer_activation_bytes(LLAMA, **arguments)
    everything = replace(PLAIN, recompute=Recompute.NONE).estimate(**BATCH).activations
    assert everything == 32 * layer
    assert PLAIN.estimate(**BATCH).activations == 32 * 2048 * 2 * 4096 + layer


def test_the_first_of_several_stages_keeps_as_many_activations_as_one():
    whole = replace(PLAIN, recompute=Recompute.NONE).estimate(**BATCH)
    staged = replace(PLAIN, recompute=Recompute.NONE, pp=4).estimate(**BATCH)
    assert staged.activations == whole.activations
    assert staged.weights == 2 * rank_shape(LLAMA, 1, 4).num_parameters < whole.weights / 3


def test_logits_are_scored_at_once_or_in_chunks():
    whole, chunked = PLAIN, replace(PLAIN, logits_chunk_tokens=256)
    assert whole.estimate(**BATCH).logits == 2048 * 128_256 * 14
    assert chunked.estimate(**BATCH).logits == 256 * 128_256 * 14
    assert replace(PLAIN, logits_chunk_tokens=10**6).estimate(**BATCH) == whole.estimate(**BATCH)


@given(
    tp=st.sampled_from([1, 2, 4, 8]),
    recompute=st.sampled_from(list(Recompute)),
    context_tokens=st.sampled_from([512, 4096, 65_536]),
    value=st.booleans(),
)
def test_more_ranks_never_take_more_on_each(tp, recompute, context_tokens, value):
    memory = TrainingMemory(shape=LLAMA, recompute=recompute, roles=Roles(value=value))
    few, many = (
        replace(memory, tp=degree).estimate(num_sequences=1, context_tokens=context_tokens)
        for degree in (tp, 2 * tp)
    )
    assert many.total < few.total


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"zero_stage": 4}, "zero_stage must be 0, 1, 2 or 3, got 4"),
        ({"dp": 0}, "degrees, sizes and ranks must be >= 1"),
        ({"lora_rank": 0}, "degrees, sizes and ranks must be >= 1"),
        ({"logits_chunk_tokens": -1}, "degrees, sizes and ranks must be >= 1"),
        ({"tp": 3}, "tp 3 does not divide the model's 32 attention heads"),
        ({"pp": 3}, "pp 3 does not divide the model's 32 layers"),
    ],
)
def test_impossible_setups_are_refused_with_the_rule(change, message):
    with pytest.raises(ValueError, match=message):
        replace(PLAIN, **change)
