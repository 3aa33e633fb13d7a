"""Linear layers in 8 bits, for models that are only read."""

from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear
from transformers import PreTrainedModel

_LEVELS = 127


@final
class Int8Linear(nn.Module):
    """A linear layer whose weights are whole numbers from -127 to 127 with a scale per output.

    w ~ s q with s = max |w| / 127 of the output's row and q = round(w / s): symmetric absmax
    quantisation of weights alone (as in LLM.int8(), Dettmers et al., arXiv:2208.07339, section 2.1,
    which quantises activations too). No weight is off by more than s / 2. Products are computed in
    the precision of the activations, of weights that are unpacked for them.

    Args:
        layer: What is quantised; stays as it is.
    """

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        weight = layer.weight.detach().float()
        scale = (weight.abs().amax(dim=1, keepdim=True) / _LEVELS).clamp(min=torch.finfo().tiny)
        self.quantised: Tensor
        self.scale: Tensor
        self.bias: Tensor | None
        self.register_buffer("quantised", (weight / scale).round().to(torch.int8))
        self.register_buffer("scale", scale.to(layer.weight.dtype))
        # By its name, as the library's type of the attribute leaves out that there may be none.
        bias = dict(layer.named_parameters()).get("bias")
        self.register_buffer("bias", None if bias is None else bias.detach().clone())

    def forward(self, inputs: Float[Tensor, "... in_features"]) -> Float[Tensor, "... out"]:
        """Return inputs times weights, plus the bias."""
        return linear(inputs, self.quantised.to(inputs.dtype) * self.scale, self.bias)


def quantise(model: PreTrainedModel) -> PreTrainedModel:
    """Quantise the linear layers of a model's body in place; embedding and head stay as they are.

    The head, where errors would come straight into log-probs or rewards, is left out as in
    LLM.int8()'s implementations. The model cannot be trained or saved any more.

    Args:
        model: Not used for anything else.

    Raises:
        ValueError: If it has no such layer, as its library writes them otherwise.
    """
    body = model.base_model
    found = [
        (parent, name, layer)
        for parent in body.modules()
        for name, layer in parent.named_children()
        if type(layer) is nn.Linear
    ]
    if not found:
        raise ValueError(
            f"8 bits are for linear layers, of which {type(model).__name__} has none: leave "
            "model.reference_dtype and reward.model_dtype at 'same'"
        )
    for parent, name, layer in found:
        setattr(parent, name, Int8Linear(layer))
    return model


def weight_bytes(model: nn.Module) -> int:
    """Return what parameters and buffers take, each once."""
    tensors = {id(each): each for each in (*model.parameters(), *model.buffers())}
    return sum(each.numel() * each.element_size() for each in tensors.values())
