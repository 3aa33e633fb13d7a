"""AReaL's setting, and how its speeds carry over to others."""

import pytest
from earl_selector import MODEL_SHAPES
from earl_trainer.planning.areal import (
    TABLE_1_HOURS,
    TABLE_2_TOKENS_PER_S,
    areal_lengths,
    areal_model,
    training_flop,
)


def test_the_mean_length_is_what_the_synchronous_run_took_in_its_hours():
    hours, _ = TABLE_1_HOURS["qwen2.5-1.5b"]
    mean_tokens = TABLE_2_TOKENS_PER_S[0] * hours * 3600 / 250 / (512 * 16)
    assert areal_lengths().mean_tokens == pytest.approx(mean_tokens, rel=0.005)


def test_the_batch_and_the_split_are_the_papers():
    model = areal_model()
    assert model.batch_groups * model.group_size == 512 * 16
    assert (model.num_rollout_devices, model.num_training_devices) == (96, 32)
    assert areal_model(num_devices=8).num_rollout_devices == 6


def test_a_larger_model_reads_and_computes_more():
    small, large = areal_model("qwen2.5-1.5b"), areal_model("qwen2.5-7b")
    # Twice the heads of keys and values; 7.62e9 - 1.54e9 weights of 2 bytes at 3.35 TB/s.
    assert large.decode_s_per_sequence == pytest.approx(2 * small.decode_s_per_sequence)
    assert large.decode_s - small.decode_s == pytest.approx(6.07e9 * 2 / 3.35e12, rel=0.01)
    assert large.training_s_per_token / small.training_s_per_token == pytest.approx(
        training_flop(MODEL_SHAPES["qwen2.5-7b"], small.lengths.mean_context_tokens)
        / training_flop(MODEL_SHAPES["qwen2.5-1.5b"], small.lengths.mean_context_tokens)
    )
    assert large.slots_per_device < small.slots_per_device / 2


def test_shorter_contexts_leave_more_slots_and_cost_less():
    long, short = areal_model(), areal_model(max_tokens=8192)
    ratio = short.lengths.mean_context_tokens / long.lengths.mean_context_tokens
    assert ratio < 0.6
    assert short.decode_s_per_sequence == pytest.approx(ratio * long.decode_s_per_sequence)
    assert short.slots_per_device == pytest.approx(long.slots_per_device / ratio, rel=0.01)
    assert short.decode_s == long.decode_s
    assert 0.8 < short.training_s_per_token / long.training_s_per_token < 1


def test_operations_of_a_token_by_hand():
    shape = MODEL_SHAPES["qwen2.5-1.5b"]
    # 28 layers, 12 heads of 128.
    expected = 6 * shape.num_parameters + 12 * 28 * 1536 * 1000
    assert training_flop(shape, 1000.0) == pytest.approx(expected)


@pytest.mark.parametrize("num_devices", [0, 3, 130])
def test_devices_that_do_not_split_are_refused(num_devices):
    with pytest.raises(ValueError, match=f"must be a multiple of 4, got {num_devices}"):
        areal_model(num_devices=num_devices)
