"""How many tokens fit in one forward pass that scores them, without any cache."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import final

from earl_selector.activations import inference_activation_bytes
from earl_selector.devices import DeviceSpec
from earl_selector.shapes import ModelShape
from earl_selector.sharding import check_degree, rank_shape


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ScoringMemory:
    """Memory of experience preparation: models that give log-probs of tokens already there.

    A `CapacityModel` for the policy that chooses the degree of that stage: tokens are those of one
    micro-batch, padding included, and what exceeds them is scored in further passes.

    Example:
        >>> from earl_selector import DEVICE_SPECS, MODEL_SHAPES
        >>> memory = ScoringMemory(
        ...     shape=MODEL_SHAPES["qwen2.5-72b"],
        ...     device=DEVICE_SPECS["h100-80gb"],
        ...     bytes_per_parameter=2,
        ...     utilisation=0.9,
        ... )
        >>> [memory.capacity_tokens(tp) for tp in (2, 4, 8)]
        [2460, 26366, 38319]
    """

    shape: ModelShape
    device: DeviceSpec
    bytes_per_parameter: int
    """Of weights, and of the values computed with them."""
    utilisation: float
    """Fraction u of the device's memory that may be taken, in (0, 1]."""
    reserve_bytes: int = 0
    """What each rank needs besides weights and activations (A)."""
    num_models: int = 1
    """Models of this shape on each rank: the policy, a reference, a value or reward model."""
    splits_vocabulary: bool = True
    """As in `MemoryModel`."""

    def __post_init__(self) -> None:
        if not 0.0 < self.utilisation <= 1.0:
            raise ValueError(f"utilisation must be in (0, 1], got {self.utilisation}")
        if min(self.bytes_per_parameter, self.num_models) < 1 or self.reserve_bytes < 0:
            raise ValueError(
                "bytes_per_parameter and num_models must be >= 1 and reserve_bytes >= 0, got "
                f"{self.bytes_per_parameter}, {self.num_models} and {self.reserve_bytes}"
            )

    def check_degree(self, tp: int) -> None:
        """Refuse a degree by which the model cannot be split.

        Raises:
            ValueError: With the rule, the offending number and the degrees that are valid.
        """
        check_degree(self.shape, tp)

    def weights_bytes(self, tp: int) -> int:
        """Return the bytes of all models' weights on one rank; see `MemoryModel`."""
        rank = rank_shape(self.shape, tp)
        if not self.splits_vocabulary:
            rank = replace(rank, vocab_size=self.shape.vocab_size)
        return self.num_models * self.bytes_per_parameter * rank.num_parameters

    def bytes_per_token(self, tp: int) -> int:
        """Return the peak a(tp) of one token of a pass: a layer's values, or its logits.

        See `inference_activation_bytes`. Every position may be scored, and logits are gathered, so
        that each rank holds those of the whole vocabulary (transformers' plans say
        `colwise_gather_output` of the output projection). Models run one after another.
        """
        rank = replace(rank_shape(self.shape, tp), vocab_size=self.shape.vocab_size)
        return inference_activation_bytes(
            rank, num_prefill_tokens=1, num_responses=1, bytes_per_value=self.bytes_per_parameter
        )

    def capacity_tokens(self, tp: int) -> int:
        """Return the most tokens of one pass: floor((u M - W(tp) - A) / a(tp)), at least 0."""
        budget_bytes = floor(Fraction(self.utilisation) * self.device.memory_bytes)
        free_bytes = budget_bytes - self.weights_bytes(tp) - self.reserve_bytes
        return max(0, free_bytes // self.bytes_per_token(tp))

    def required_memory_bytes(self, tp: int, num_tokens: int) -> int:
        """Return the least memory per device with which a pass of `num_tokens` fits."""
        used_bytes = (
            self.weights_bytes(tp) + self.reserve_bytes + num_tokens * self.bytes_per_token(tp)
        )
        return ceil(used_bytes / Fraction(self.utilisation))
