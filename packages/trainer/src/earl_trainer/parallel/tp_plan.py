"""How transformers splits the layers of a model, as the selector's parameter specs."""

from collections.abc import Sequence

import torch
from earl_selector import ParameterSpec
from transformers import PreTrainedModel

from earl_trainer.parallel.blueprint import Blueprint

HEAD = "lm_head"
EMBEDDING_ROWWISE = "embedding_rowwise"
"""Each rank looks up its part of the vocabulary, and the ranks add up what they found."""
_WHOLE = "replicated_with_grad_allreduce"
_COLWISE = ("colwise", "colwise_gather_output")
_ROWWISE = "rowwise"


def divides_vocabulary(vocab_size: int, degrees: Sequence[int]) -> bool:
    """Tell whether ranks split the vocabulary; else each holds embedding and output layer whole."""
    return all(vocab_size % tp == 0 for tp in degrees)


def find_layer_styles(model: PreTrainedModel, degrees: Sequence[int]) -> dict[str, str]:
    """Return the style in which each kind of layer is split, the layers' numbers written as `*`.

    The embedding is split by the vocabulary also where the library's plan leaves it whole, as the
    memory model counts; what is split so stays whole where a degree does not divide the vocabulary.

    Args:
        model: May be without storage.
        degrees: At which it is to run.

    Raises:
        ValueError: With the rule: transformers has no plan for the model, one that a rank cannot
            hold as one slice per parameter, or a degree does not divide the heads.
    """
    if max(degrees) == 1:
        return {}
    config, kind = model.config, type(model).__name__
    styles = dict(model.tp_plan)
    if not styles:
        raise ValueError(f"{kind} has no tensor-parallel plan in transformers: it runs at tp 1")
    for layer, style in styles.items():
        if style not in (*_COLWISE, _ROWWISE, _WHOLE, EMBEDDING_ROWWISE):
            raise ValueError(
                f"{kind} splits {layer} in the style {style!r}, which the embedded engine does not "
                "know: it runs at tp 1"
            )
    num_kv_heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    for tp in degrees:
        if num_kv_heads % tp:
            raise ValueError(
                f"the embedded engine splits KV heads evenly: tp {tp} does not divide the model's "
                f"{num_kv_heads}"
            )
    embedding = next(
        name for name, each in model.named_modules() if each is model.get_input_embeddings()
    )
    if divides_vocabulary(config.vocab_size, degrees):
        return styles | {embedding: EMBEDDING_ROWWISE}
    return {layer: style for layer, style in styles.items() if layer not in (HEAD, embedding)}


def list_parameters(blueprint: Blueprint, degrees: Sequence[int]) -> tuple[ParameterSpec, ...]:
    """List a model's parameters, each once, with the dim along which ranks split it.

    Raises:
        ValueError: As `find_layer_styles` does.
    """
    model = blueprint.build(torch.device("cpu"))
    styles = find_layer_styles(model, degrees)
    return tuple(
        ParameterSpec(
            name=name,
            shape=tuple(parameter.shape),
            element_bytes=parameter.element_size(),
            sharded_dim=_sharded_dim(name, styles, num_dims=parameter.ndim),
        )
        for name, parameter in model.named_parameters()
    )


def _sharded_dim(name: str, styles: dict[str, str], *, num_dims: int) -> int | None:
    layer, _, own_name = name.rpartition(".")
    style = styles.get(".".join("*" if part.isdigit() else part for part in layer.split(".")))
    if style in (*_COLWISE, EMBEDDING_ROWWISE):
        return 0
    # The bias of a row-wise layer is added once, after the sum over the ranks.
    return num_dims - 1 if style == _ROWWISE and own_name != "bias" else None
