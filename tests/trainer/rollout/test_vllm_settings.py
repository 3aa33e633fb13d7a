from dataclasses import replace
from pathlib import Path

import pytest
import torch
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.rollout.vllm_settings import VllmSettings
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def shape(tiny_model):
    return ModelShape.from_config(tiny_model.config.to_dict())


@pytest.fixture(scope="module")
def make_settings(shape):
    def make(cache_bytes, **changes):
        weights_bytes = MemoryModel(
            shape=shape, device=DeviceSpec.cpu(1), bytes_per_parameter=4, bytes_per_kv_value=4,
            utilisation=1.0, reserve_bytes=0,
        ).weights_bytes(1)  # fmt: skip
        memory = MemoryModel(
            shape=shape, device=DeviceSpec.cpu(weights_bytes + cache_bytes), bytes_per_parameter=4,
            bytes_per_kv_value=4, utilisation=1.0, reserve_bytes=0,
        )  # fmt: skip
        settings = VllmSettings(
            memory=memory,
            stop_ids=frozenset({4}),
            max_context_tokens=1000,
            num_threads=6,
            dtype=torch.float32,
        )
        return replace(settings, **changes)

    return make


def test_the_cache_is_what_the_weights_leave(make_settings):
    # Two layers of 32 keys and 32 values, 4 bytes each.
    assert make_settings(512 * 100).cache_bytes(1) == 512 * 100
    assert make_settings(512 * 100 + 511).cache_bytes(1) == 512 * 100


@given(num_tokens=st.integers(64, 2000), tp=st.sampled_from([1, 2]))
def test_the_longest_context_leaves_one_block_free_and_keeps_the_limit(
    make_settings, num_tokens, tp
):
    settings = make_settings(512 * num_tokens)
    longest = settings.longest_context(tp)
    held_tokens = settings.memory.capacity_tokens(tp)
    assert longest <= min(1000, held_tokens - 32)
    assert longest == 1000 or longest > held_tokens - 64


def test_memory_for_less_than_two_blocks_is_refused(make_settings):
    assert make_settings(512 * 64).longest_context(1) == 32
    with pytest.raises(
        ValueError, match=r"two blocks of 32 tokens on every rank, got 32,256 bytes"
    ):
        make_settings(512 * 63).longest_context(1)


def test_keys_and_values_of_another_size_than_the_models_are_refused(make_settings):
    with pytest.raises(ValueError, match=r"torch\.bfloat16, but the memory counts 4 bytes"):
        make_settings(512 * 64, dtype=torch.bfloat16)


def test_threads_are_shared_among_the_ranks_and_never_none(make_settings):
    settings = make_settings(512 * 64)
    threads = [settings.variables(tp, on_gpu=False)["OMP_NUM_THREADS"] for tp in (1, 2, 4, 8)]
    assert threads == ["6", "3", "1", "1"]
    assert "OMP_NUM_THREADS" not in settings.variables(2, on_gpu=True)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_the_arguments_are_ones_that_vllm_knows(make_settings, on_gpu):
    arguments = make_settings(512 * 640).arguments(2, Path("folder"), on_gpu=on_gpu)
    assert arguments["kv_cache_memory_bytes"] == make_settings(512 * 640).cache_bytes(2)
    assert arguments["logprobs_mode"] == "processed_logprobs"
    assert arguments["enable_sleep_mode"] is on_gpu
    assert arguments["enable_chunked_prefill"] is on_gpu
