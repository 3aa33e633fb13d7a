"""How tensor and pipeline parallelism split a model over ranks.

Within a layer: query heads, key and value heads, MLP width (of every expert) and vocabulary are
split; norms, routers and the bias of the output projection are replicated. Ranks beyond the number
of key and value heads replicate these heads. Layers are split over pipeline stages. Sources:
Shoeybi et al. 2019, arXiv:1909.08053, section 3; Narayanan et al. 2021, arXiv:2104.04473, section
2.2; replication of KV heads as in vLLM (vllm/model_executor/layers/linear.py, `QKVParallelLinear`).
"""

from dataclasses import replace
from functools import lru_cache

from earl_selector.shapes import ModelShape


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
def rank_shape(shape: ModelShape, tp: int, pp: int = 1) -> ModelShape:
    """Return the share of one rank, which is itself a narrower and shallower model.

    The vocabulary share is rounded up: engines pad the embedding to equal parts. Of several
    pipeline stages this is the last, which holds the output projection and no embedding; none
    holds more.

    Args:
        shape: The whole model.
        tp: A degree that `check_degree` accepts.
        pp: Pipeline stages.

    Raises:
        ValueError: If a degree does not split the model evenly.
    """
    check_degree(shape, tp)
    if pp < 1 or shape.num_layers % pp != 0:
        raise ValueError(f"pp {pp} does not divide the model's {shape.num_layers} layers")
    return replace(
        shape,
        num_layers=shape.num_layers // pp,
        num_heads=shape.num_heads // tp,
        num_kv_heads=max(1, shape.num_kv_heads // tp),
        intermediate_size=shape.intermediate_size // tp,
        vocab_size=-(-shape.vocab_size // tp),
        tie_embeddings=shape.tie_embeddings or pp > 1,
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
