"""How tensor parallelism splits a model: pure functions of a shape and a degree.

The split is the one of Megatron-LM (Shoeybi et al. 2019, arXiv:1909.08053, section 3), as vLLM
carries it out:

- sharded over the ranks: query, key, value and output projections by heads (biases with them),
  gate, up and down projections by MLP width, embedding and output projection by vocabulary;
- replicated on every rank: the RMSNorm gains;
- key and value heads are replicated once there are more ranks than KV heads
  (vllm/model_executor/layers/linear.py, `QKVParallelLinear`).
"""

from dataclasses import replace
from functools import lru_cache

from earl_selector.specs import ModelShape


def check_degree(shape: ModelShape, tp: int) -> None:
    """Refuse a degree by which the model cannot be split into equal ranks.

    Raises:
        ValueError: With the rule, the offending number and the degrees that are valid.
    """
    broken_rule = _find_broken_rule(shape, tp)
    if broken_rule is not None:
        valid = ", ".join(str(degree) for degree in list_valid_degrees(shape))
        raise ValueError(f"tp {tp} {broken_rule} (valid: {valid})")


def list_valid_degrees(shape: ModelShape) -> tuple[int, ...]:
    """Return every degree that `check_degree` accepts, ascending; 1 is always among them."""
    return tuple(tp for tp in range(1, shape.num_heads + 1) if _find_broken_rule(shape, tp) is None)


# A pure function that every decision asks for the same few shares.
@lru_cache(maxsize=256)
def rank_shape(shape: ModelShape, tp: int) -> ModelShape:
    """Return the share of one rank, which is itself a narrower model of the same depth.

    The vocabulary share is rounded up: engines pad the embedding to equal parts.

    Args:
        shape: The whole model.
        tp: A degree that `check_degree` accepts.
    """
    check_degree(shape, tp)
    return replace(
        shape,
        num_heads=shape.num_heads // tp,
        num_kv_heads=max(1, shape.num_kv_heads // tp),
        intermediate_size=shape.intermediate_size // tp,
        vocab_size=-(-shape.vocab_size // tp),
    )


def _find_broken_rule(shape: ModelShape, tp: int) -> str | None:
    if tp < 1:
        return "is not a positive number of ranks"
    if shape.num_heads % tp != 0:
        return f"does not divide the model's {shape.num_heads} attention heads"
    if shape.num_kv_heads % tp != 0 and tp % shape.num_kv_heads != 0:
        return f"neither divides nor is a multiple of the model's {shape.num_kv_heads} KV heads"
    if shape.intermediate_size % tp != 0:
        return f"does not divide the model's MLP width {shape.intermediate_size}"
    return None
