"""What training needs of each device."""

from dataclasses import dataclass, field, fields
from typing import Final, final

from earl_selector.activations import Recompute, layer_activation_bytes, logits_bytes
from earl_selector.shapes import ModelShape
from earl_selector.sharding import rank_shape

_ADAM_BYTES: Final = 12


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBytes:
    """Bytes on one rank, by what they are for."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    logits: int
    frozen: int
    """Weights of the reference and the reward model."""
    host: int
    """What lies in the host's memory instead; not part of `total`."""

    @property
    def total(self) -> int:
        """Return the sum of what lies on the device."""
        return sum(getattr(self, part.name) for part in fields(self) if part.name != "host")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Roles:
    """Which models there are besides the policy, each of the policy's shape."""

    reference: bool = False
    """Frozen. Under LoRA it is the policy without its adapters and takes nothing."""
    reward: bool = False
    """Frozen, with a head of one output."""
    value: bool = False
    """Trained as the policy is, with a head of one output."""
    offload_frozen: bool = False
    """Keep the frozen ones in the host's memory."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Memory of training a model over `tp` x `pp` x `dp` devices with Adam.

    Per trained parameter: its weight, its gradient, and 12 bytes of Adam (float32 copy and two
    moments), partitioned over `dp` ranks from ZeRO stage 1 (optimizer), 2 (gradients) or 3
    (weights) on. Source: Rajbhandari et al. 2020, arXiv:1910.02054, section 3.1 (K = 12) and
    section 5. Deviation: communication buffers and fragmentation are ignored.

    Example:
        >>> from earl_selector import MODEL_SHAPES
        >>> memory = TrainingMemory(shape=MODEL_SHAPES["llama-3.1-8b"], dp=8, zero_stage=3)
        >>> round(memory.estimate(num_sequences=1, context_tokens=8192).total / 1e9)
        35
    """

    shape: ModelShape
    tp: int = 1
    pp: int = 1
    dp: int = 1
    bytes_per_parameter: int = 2
    bytes_per_gradient: int = 2
    zero_stage: int = 0
    recompute: Recompute = Recompute.LAYERS
    fused_attention: bool = True
    """Whether attention never materialises its scores (flash attention)."""
    sequence_parallel: bool = False
    """Whether norms are split over the `tp` ranks (Korthikanti et al. 2022, section 4.2.2)."""
    lora_rank: int | None = None
    """Of adapters on all seven projections of each layer; None trains every weight."""
    offload_optimizer: bool = False
    """Keep Adam's state in the host's memory."""
    logits_chunk_tokens: int | None = None
    """Tokens scored at once; None scores the whole micro-batch."""
    roles: Roles = field(default_factory=Roles)

    def __post_init__(self) -> None:
        if self.zero_stage not in range(4):
            raise ValueError(f"zero_stage must be 0, 1, 2 or 3, got {self.zero_stage}")
        counts = (self.dp, self.bytes_per_parameter, self.bytes_per_gradient)
        optional = (self.lora_rank or 1, self.logits_chunk_tokens or 1)
        if min(*counts, *optional) < 1 or 0 in (self.lora_rank, self.logits_chunk_tokens):
            raise ValueError(f"degrees, sizes and ranks must be >= 1, got {self}")
        rank_shape(self.shape, self.tp, self.pp)

    def estimate(self, *, num_sequences: int, context_tokens: int) -> TrainingBytes:
        """Return the peak of a rank that trains on micro-batches of `num_sequences`."""
        rank = rank_shape(self.shape, self.tp, self.pp)
        num_tokens = num_sequences * context_tokens
        head = (rank.vocab_size - 1) * rank.hidden_size if not rank.tie_embeddings else 0
        value = rank.num_parameters - head
        adapters = 0 if self.lora_rank is None else lora_parameters(rank, self.lora_rank)
        num_trained = [rank.num_parameters] + [value] * self.roles.value
        num_weights = sum(num_trained)
        num_updated = sum(num_trained) if self.lora_rank is None else adapters * len(num_trained)
        stored = num_weights + (0 if self.lora_rank is None else num_updated)
        num_frozen = (self.roles.reference and self.lora_rank is None) * rank.num_parameters
        num_frozen += self.roles.reward * value
        optimizer = self._share(_ADAM_BYTES * num_updated, from_stage=1)
        frozen = self._share(self.bytes_per_parameter * num_frozen, from_stage=3)
        chunk_tokens = min(num_tokens, self.logits_chunk_tokens or num_tokens)
        return TrainingBytes(
            weights=self._share(self.bytes_per_parameter * stored, from_stage=3),
            gradients=self._share(self.bytes_per_gradient * num_updated, from_stage=2),
            optimizer=0 if self.offload_optimizer else optimizer,
            activations=self.activation_bytes(num_tokens, context_tokens),
            logits=logits_bytes(
                rank, num_tokens=chunk_tokens, bytes_per_value=self.bytes_per_parameter
            ),
            frozen=0 if self.roles.offload_frozen else frozen,
            host=self.offload_optimizer * optimizer + self.roles.offload_frozen * frozen,
        )

    def activation_bytes(self, num_tokens: int, context_tokens: int) -> int:
        """Return what a rank keeps of all its layers for backward.

        The first of `pp` stages keeps `pp` micro-batches at once and therefore as much as all
        layers of one (Narayanan et al. 2021, arXiv:2104.04473, section 2.2). Where layers are
        computed again, one stands complete besides the inputs of all.
        """
        rank = rank_shape(self.shape, self.tp)
        kept, whole = (
            layer_activation_bytes(
                rank,
                num_tokens=num_tokens,
                context_tokens=context_tokens,
                bytes_per_value=self.bytes_per_parameter,
                recompute=recompute,
                fused_attention=self.fused_attention,
                sequence_parallel_degree=self.tp if self.sequence_parallel else 1,
            )
            for recompute in (self.recompute, Recompute.NONE)
        )
        return rank.num_layers * kept + (whole if self.recompute is Recompute.LAYERS else 0)

    def _share(self, num_bytes: int, *, from_stage: int) -> int:
        """Split evenly over the data-parallel ranks, rounded up, if ZeRO partitions this."""
        return -(-num_bytes // (self.dp if self.zero_stage >= from_stage else 1))


def lora_parameters(rank: ModelShape, lora_rank: int) -> int:
    """Count the adapters of every projection: r (in + out) each.

    Source: Hu et al. 2021, arXiv:2106.09685, section 4.1. Of a projection split over ranks, one
    factor is split with it and the other is replicated, which is what the narrower shape gives.
    """
    hidden, query = rank.hidden_size, rank.num_heads * rank.head_dim
    key, width = rank.num_kv_heads * rank.head_dim, rank.intermediate_size
    attention = 2 * (hidden + query) + 2 * (hidden + key)
    mlp = 3 * (hidden + width) * rank.num_experts
    return rank.num_layers * lora_rank * (attention + mlp)
