"""Bytes of intermediate values: while training, and while an engine reads prompts."""

from enum import StrEnum
from typing import Final

from earl_selector.shapes import ModelShape

_FLOAT32_BYTES: Final = 4
# log-softmax, its gradient and the float32 logits that it was computed from.
_NUM_FLOAT32_LOGITS: Final = 3


class Recompute(StrEnum):
    """What backward computes again instead of keeping it (activation checkpointing)."""

    NONE = "none"
    ATTENTION = "attention"
    """Only what lies between queries and keys and attention's output: selective recomputation."""
    LAYERS = "layers"
    """Everything but the input of each layer: full recomputation."""


def gpt_layer_activation_bytes(
    *,
    hidden_size: int,
    num_heads: int,
    num_sequences: int,
    context_tokens: int,
    tp: int = 1,
    sequence_parallel: bool = False,
    recompute: Recompute = Recompute.NONE,
) -> int:
    """Return what backward needs of one layer of a GPT with 16-bit values and dropout.

    With s tokens, b sequences, h hidden size, a heads and t ranks:

        no recomputation                    s b h (10 + 24/t + 5 a s / (h t))     eq. 2
        and sequence parallelism            s b h (34 + 5 a s / h) / t            eq. 4
        attention recomputed                the same without 5 a s / h            eq. 6
        layers recomputed                   2 s b h                               table 2

    Source: Korthikanti et al. 2022, arXiv:2205.05198, section 4. Made for multi-head attention that
    materialises its scores and an MLP of width 4h with GELU; `layer_activation_bytes` is for the
    models of today.
    """
    values = num_sequences * context_tokens * hidden_size
    if recompute is Recompute.LAYERS:
        return 2 * values
    scores = 5 * num_heads * context_tokens**2 * num_sequences
    sharded = 24 * values + (0 if recompute is Recompute.ATTENTION else scores)
    if sequence_parallel:
        return (10 * values + sharded) // tp
    return 10 * values + sharded // tp


def layer_activation_bytes(
    rank: ModelShape,
    *,
    num_tokens: int,
    context_tokens: int,
    bytes_per_value: int,
    recompute: Recompute = Recompute.NONE,
    fused_attention: bool = True,
    sequence_parallel_degree: int = 1,
) -> int:
    """Return what backward needs of one layer with RMSNorm, grouped heads and a gated MLP.

    Per token, with hidden size h, query width q, key width k and MLP width f of the rank, n of its
    heads, context s, e active experts and v bytes per value:

        2 h (4 + 2v)        two norms: float32 input, normalised value, output
        (q + k) (4 + v)     norms of query and key, where the model has them
        2 v (q + k)         query, key, value, attention's output
        n s (4 + v), with   probabilities in float32 and as multiplied, in one if v = 4, and keys
        2 v (q - k)         and values repeated for every head; or, fused or recomputed,
        4 n                 the normaliser
        4 v f e             gate, its activation, up, their product
        v h e               inputs gathered for experts, where there are several

    Source: counted from what autograd saves of transformers' `modeling_llama`, in the manner of
    Korthikanti et al. 2022, arXiv:2205.05198, section 4.1; fused as in Dao 2023, arXiv:2307.08691.

    Args:
        rank: The share of one rank.
        num_tokens: Of all sequences together.
        context_tokens: Of each sequence.
        bytes_per_value: 2 in 16-bit training.
        recompute: What is not kept.
        fused_attention: Whether scores are never materialised.
        sequence_parallel_degree: Over how many ranks the norms are split.
    """
    if recompute is Recompute.LAYERS:
        return num_tokens * bytes_per_value * rank.hidden_size // sequence_parallel_degree
    query, key = rank.num_heads * rank.head_dim, rank.num_kv_heads * rank.head_dim
    normed = _FLOAT32_BYTES + bytes_per_value
    norms = 2 * rank.hidden_size * (normed + bytes_per_value) // sequence_parallel_degree
    attention = (query + key) * (2 * bytes_per_value + rank.qk_norm * normed)
    if fused_attention or recompute is Recompute.ATTENTION:
        scores = _FLOAT32_BYTES * rank.num_heads
    else:
        scores = _materialised_bytes(rank, context_tokens, bytes_per_value)
    inputs = rank.hidden_size if rank.num_experts > 1 else 0
    mlp = rank.num_active_experts * (4 * rank.intermediate_size + inputs)
    return num_tokens * (norms + attention + scores + bytes_per_value * mlp)


def _materialised_bytes(rank: ModelShape, context_tokens: int, bytes_per_value: int) -> int:
    """Return what unfused attention keeps of one token: its probabilities and repeated heads."""
    is_converted = bytes_per_value != _FLOAT32_BYTES
    probability = _FLOAT32_BYTES + is_converted * bytes_per_value
    num_repeated = (rank.num_heads - rank.num_kv_heads) * rank.head_dim
    return rank.num_heads * context_tokens * probability + 2 * bytes_per_value * num_repeated


def logits_bytes(rank: ModelShape, *, num_tokens: int, bytes_per_value: int) -> int:
    """Return the peak of scoring tokens in one piece: n V (v + 12) for vocabulary V of the rank.

    The logits as computed and three times in float32: converted, log-softmax, gradient. Source:
    what `torch.nn.functional.cross_entropy` of `logits.float()` keeps. Scoring in chunks needs only
    the bytes of a chunk.
    """
    return num_tokens * rank.vocab_size * (bytes_per_value + _NUM_FLOAT32_LOGITS * _FLOAT32_BYTES)


def inference_activation_bytes(
    rank: ModelShape, *, num_prefill_tokens: int, num_responses: int, bytes_per_value: int
) -> int:
    """Return the peak of an engine besides weights and cache: one layer, or the logits.

    A layer holds input and residual (2h) and, in turn, its MLP's gate, up and product (3f e) for
    the tokens read at once; afterwards stand the logits of one position per response, as computed
    and twice in float32 (scaled, sorted for sampling). Source: the same modules as
    `layer_activation_bytes`; vLLM measures this peak instead (`profile_run` in
    vllm/v1/worker/gpu_model_runner.py).
    """
    width = 2 * rank.hidden_size + 3 * rank.intermediate_size * rank.num_active_experts
    layer = num_prefill_tokens * width * bytes_per_value
    logits = num_responses * rank.vocab_size * (bytes_per_value + 2 * _FLOAT32_BYTES)
    return max(layer, logits)
