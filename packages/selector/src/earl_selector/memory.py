"""How many bytes a rank needs, and how many resident tokens an engine therefore holds."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import final

from earl_selector.devices import DeviceSpec
from earl_selector.shapes import ModelShape
from earl_selector.sharding import check_degree, rank_shape


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryModel:
    """Memory of one inference engine spread over `tp` x `pp` devices of the same kind.

    Every method is a closed form. Weights, cache and reserve are per rank; a token's cache lies on
    all ranks of the engine, so the capacity of a rank is the capacity of the engine. Data-parallel
    engines are copies, each with this memory and its own responses.

    Example:
        >>> from earl_selector import DEVICE_SPECS, MODEL_SHAPES
        >>> memory = MemoryModel(
        ...     shape=MODEL_SHAPES["qwen2.5-72b"],
        ...     device=DEVICE_SPECS["h100-80gb"],
        ...     bytes_per_parameter=2,
        ...     bytes_per_kv_value=2,
        ...     utilisation=0.9,
        ...     reserve_bytes=3 * 10**9,
        ... )
        >>> memory.capacity_tokens(4)
        452803
    """

    shape: ModelShape
    device: DeviceSpec
    bytes_per_parameter: int
    bytes_per_kv_value: int
    utilisation: float
    """Fraction u of the device's memory that the engine may take, in (0, 1]."""
    reserve_bytes: int
    """What each rank needs besides weights and cache (A): activations, buffers, graphs; see
    `earl_selector.activations.inference_activation_bytes`."""
    splits_vocabulary: bool = True
    """Whether ranks split the embedding and the output projection, or each holds both whole."""

    def __post_init__(self) -> None:
        if not 0.0 < self.utilisation <= 1.0:
            raise ValueError(f"utilisation must be in (0, 1], got {self.utilisation}")
        if self.bytes_per_parameter < 1 or self.bytes_per_kv_value < 1:
            raise ValueError(
                "bytes_per_parameter and bytes_per_kv_value must be >= 1, got "
                f"{self.bytes_per_parameter} and {self.bytes_per_kv_value}"
            )
        if self.reserve_bytes < 0:
            raise ValueError(f"reserve_bytes must be >= 0, got {self.reserve_bytes}")

    def check_degree(self, tp: int) -> None:
        """Refuse a degree by which the model cannot be split.

        Raises:
            ValueError: With the rule, the offending number and the degrees that are valid.
        """
        check_degree(self.shape, tp)

    def weights_bytes(self, tp: int, pp: int = 1) -> int:
        """Return the bytes of weights on one rank.

        All matrices and their biases are sharded, norms are replicated, and key and value
        projections are replicated beyond the number of KV heads. Source: Shoeybi et al. 2019,
        arXiv:1909.08053, section 3; see `earl_selector.sharding`.
        """
        rank = rank_shape(self.shape, tp, pp)
        if not self.splits_vocabulary:
            rank = replace(rank, vocab_size=self.shape.vocab_size)
        return self.bytes_per_parameter * rank.num_parameters

    def kv_bytes_per_token(self, tp: int, pp: int = 1) -> int:
        """Return the bytes k(tp) that one resident token takes on one rank.

        2 x layers x KV heads on the rank x head size x bytes per value. Source: Kwon et al. 2023,
        arXiv:2309.06180, section 3; Ainslie et al. 2023, arXiv:2305.13245, for KV heads. A rank
        holds m / tp of the m heads and never fewer than one, so degrees beyond m save no cache.
        """
        return self.bytes_per_kv_value * rank_shape(self.shape, tp, pp).num_kv_values_per_token

    def capacity_tokens(self, tp: int, pp: int = 1) -> int:
        """Return how many resident tokens the engine holds without queueing or preempting.

        C(tp) = floor((u M - W(tp) - A) / k(tp)), and 0 where the weights alone do not fit; M is the
        device's memory, W the weights on a rank, A the reserve. Source: how vLLM sizes its cache
        (vllm/v1/worker/gpu_worker.py, `determine_available_memory`: utilisation x total memory less
        weights and peak activations). Deviation: blocks are ignored, so an engine with blocks of b
        tokens wastes up to b - 1 tokens per response.
        """
        budget_bytes = floor(Fraction(self.utilisation) * self.device.memory_bytes)
        cache_bytes = budget_bytes - self.used_bytes(tp, 0, pp)
        return max(0, cache_bytes // self.kv_bytes_per_token(tp, pp))

    def used_bytes(self, tp: int, num_tokens: int, pp: int = 1) -> int:
        """Return what a rank takes with `num_tokens` resident: W(tp) + A + num_tokens k(tp)."""
        return (
            self.weights_bytes(tp, pp)
            + self.reserve_bytes
            + num_tokens * self.kv_bytes_per_token(tp, pp)
        )

    def required_memory_bytes(self, tp: int, num_tokens: int, pp: int = 1) -> int:
        """Return the least memory per device with which `num_tokens` resident tokens fit.

        The inverse of `capacity_tokens`: M = ceil((W(tp) + A + num_tokens k(tp)) / u).
        """
        # Exact fractions keep this and capacity_tokens inverse to the byte.
        return ceil(self.used_bytes(tp, num_tokens, pp) / Fraction(self.utilisation))
