"""AReaL's runs as a pipeline: what the paper says of them, and four figures that it does not.

The paper is Fu et al. 2025, arXiv:2505.24298.
"""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Final

from earl_selector.memory import MemoryModel
from earl_selector.shapes import ModelShape
from earl_selector.specs import DEVICE_SPECS, MODEL_SHAPES

from earl_trainer.planning.lengths import LogNormalLengths
from earl_trainer.planning.model import PipelineModel

TABLE_2_TOKENS_PER_S: Final[Mapping[float | int, float]] = MappingProxyType({
    0: 128.7e3, 1: 269.3e3, 2: 356.6e3, 4: 356.6e3, 8: 371.7e3, 16: 382.4e3, inf: 396.8e3,
})  # fmt: skip
"""Staleness allowed -> throughput of the 1.5B model on 16 nodes (table 2)."""
TABLE_7_TOKENS_PER_S: Final[Mapping[float | int, float]] = MappingProxyType({
    0: 27.1e3, 1: 47.8e3, 2: 47.8e3, 4: 49.0e3, 8: 51.5e3, 16: 52.0e3,
})  # fmt: skip
"""The same of the 1.5B model on 8 GPUs with contexts of 8k tokens (table 7)."""
TABLE_1_HOURS: Final[Mapping[str, tuple[float, float]]] = MappingProxyType({
    "qwen2.5-1.5b": (41.0, 14.8),
    "qwen2.5-7b": (57.7, 25.4),
})
"""Model -> hours of synchronous and of asynchronous AReaL (table 1)."""
TABLE_1_DEVICES: Final[Mapping[str, int]] = MappingProxyType({
    "qwen2.5-1.5b": 128,
    "qwen2.5-7b": 192,
})
TABLE_1_ETA: Final = 8
"""What the paper allows for mathematics."""
MAX_SCALING_SPEEDUP: Final = 2.5
"""Over synchronous systems, on up to 512 GPUs: "up to", for a setting that is not named."""

MAX_TOKENS: Final = 27_648
TABLE_7_MAX_TOKENS: Final = 8192

# Not in the paper. The mean follows from it: 128.7 k tokens/s (table 2, eta = 0) for 41.0 hours and
# 250 steps (table 1) of 512 x 16 sequences make 9,275 tokens a sequence, which this median gives.
# The tail and what sequences of one prompt have in common are assumed.
_MEDIAN_TOKENS: Final = 6850
_TAIL_RATIO: Final = 8
# Assumed: 3 GB of weights to 96 devices at less than 1 GB/s.
_PUBLICATION_S: Final = 5.0
# As `earl plan tp` takes by default: of an H800, which has the memory of an H100.
_DEVICE: Final = DEVICE_SPECS["h100-80gb"]
_UTILISATION: Final = 0.9
_RESERVE_BYTES: Final = 3 * 10**9
_VALUE_BYTES: Final = 2

_FITTED_SHAPE: Final = MODEL_SHAPES["qwen2.5-1.5b"]
# What `fit_speeds` returns for the throughput at eta = 0, 1 and inf of table 2.
_DECODE_S: Final = 8.427e-3
_DECODE_S_PER_SEQUENCE: Final = 0.2096e-3
_TRAINING_S_PER_TOKEN: Final = 78.54e-6


def areal_model(
    name: str = "qwen2.5-1.5b", *, num_devices: int = 128, max_tokens: int = MAX_TOKENS
) -> PipelineModel:
    """Return the pipeline of a run of AReaL: 512 x 16 sequences, a quarter of the devices trains.

    The three speeds are fitted for the 1.5B model at the paper's maximum length. For any other
    setting they follow from what they are made of: the time of a token from the bytes of weights
    that it reads, that of a sequence from the bytes of its keys and values, training from the
    operations of a token.

    Args:
        name: Of a model in the selector's catalogue; DeepSeek's distilled models have the shapes of
            Qwen2.5.
        num_devices: Rollout and training devices together, a multiple of 4.
        max_tokens: Generated at most.

    Raises:
        ValueError: If the devices cannot be split 3 : 1.
    """
    if num_devices < 4 or num_devices % 4:
        raise ValueError(f"num_devices must be a multiple of 4, got {num_devices}")
    shape = MODEL_SHAPES[name]
    fitted = areal_lengths().mean_context_tokens
    lengths = areal_lengths(max_tokens)
    context = lengths.mean_context_tokens
    more_weights_bytes = _memory(shape).weights_bytes(1) - _memory(_FITTED_SHAPE).weights_bytes(1)
    cache_ratio = _cache_bytes(shape, context) / _cache_bytes(_FITTED_SHAPE, fitted)
    flop_ratio = training_flop(shape, context) / training_flop(_FITTED_SHAPE, fitted)
    return PipelineModel(
        lengths=lengths,
        batch_groups=512 * 16,
        group_size=1,
        num_rollout_devices=num_devices * 3 // 4,
        num_training_devices=num_devices // 4,
        slots_per_device=int(_memory(shape).capacity_tokens(1) / context),
        decode_s=_DECODE_S + more_weights_bytes / _DEVICE.memory_bytes_per_s,
        decode_s_per_sequence=_DECODE_S_PER_SEQUENCE * cache_ratio,
        training_s_per_token=_TRAINING_S_PER_TOKEN * flop_ratio,
        publication_s=_PUBLICATION_S,
    )


def training_flop(shape: ModelShape, context_tokens: float) -> float:
    """Return the operations of one token in training, 6 N + 12 L h c.

    N are parameters, L layers, h heads times their width, and c the tokens that a token attends to
    on average. Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B, where c is the whole
    sequence; attention that looks back only meets `mean_context_tokens` on average.
    """
    attention = 12 * shape.num_layers * shape.num_heads * shape.head_dim * context_tokens
    return 6 * shape.num_parameters + attention


def areal_lengths(max_tokens: int = MAX_TOKENS) -> LogNormalLengths:
    """Return the lengths of a run of AReaL that are cut at `max_tokens`."""
    return LogNormalLengths(
        median_tokens=_MEDIAN_TOKENS, tail_ratio=_TAIL_RATIO, max_tokens=max_tokens
    )


def _memory(shape: ModelShape) -> MemoryModel:
    return MemoryModel(
        shape=shape,
        device=_DEVICE,
        bytes_per_parameter=_VALUE_BYTES,
        bytes_per_kv_value=_VALUE_BYTES,
        utilisation=_UTILISATION,
        reserve_bytes=_RESERVE_BYTES,
    )


def _cache_bytes(shape: ModelShape, context_tokens: float) -> float:
    return _memory(shape).kv_bytes_per_token(1) * context_tokens
