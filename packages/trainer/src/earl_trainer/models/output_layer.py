"""How a model makes logits of its last hidden states, where that is known to be all it does."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLayer:
    """Logits are `softcap tanh(scale (W h + b) / softcap)`."""

    weight: Float[Tensor, "vocab hidden"]
    bias: Float[Tensor, " vocab"] | None
    scale: float = 1.0
    softcap: float | None = None
    """None leaves the logits as large as they are."""


def _plain(model: PreTrainedModel) -> tuple[float, float | None]:
    del model
    return 1.0, None


def _capped(model: PreTrainedModel) -> tuple[float, float | None]:
    return 1.0, model.config.final_logit_softcapping


def _multiplied(model: PreTrainedModel) -> tuple[float, float | None]:
    return model.config.logit_scale, None


def _divided(model: PreTrainedModel) -> tuple[float, float | None]:
    return 1.0 / model.config.logits_scaling, None


_KINDS: Mapping[str, Callable[[PreTrainedModel], tuple[float, float | None]]] = {
    **dict.fromkeys(
        ("gemma", "gpt2", "llama", "mistral", "olmo2", "phi3", "qwen2", "qwen3", "smollm3"), _plain
    ),
    **dict.fromkeys(("gemma2", "gemma3_text"), _capped),
    **dict.fromkeys(("cohere", "cohere2"), _multiplied),
    "granite": _divided,
}
"""Scale and softcap by the library's name of the model's kind."""


def find_output_layer(model: PreTrainedModel) -> OutputLayer | None:
    """Return a model's output layer, or None where only the model itself can make its logits.

    That is so of kinds of models that are not listed here, and of a model whose output layer was
    replaced, or is split over ranks.
    """
    kind = _KINDS.get(model.config.model_type)
    layer = model.get_output_embeddings()
    if kind is None or type(layer) is not nn.Linear:
        return None
    if len(layer.weight) != model.config.vocab_size:
        return None
    scale, softcap = kind(model)
    return OutputLayer(weight=layer.weight, bias=layer.bias, scale=scale, softcap=softcap)


def note_whole_logits(model: PreTrainedModel) -> str | None:
    """Say that all logits of a micro-batch will be in memory at once, where they will be."""
    if find_output_layer(model) is not None:
        return None
    return (
        f"how a model of kind {model.config.model_type!r} makes its logits is not known: those of "
        "a whole micro-batch are in memory at once, learner.max_microbatch_tokens bounds them"
    )
