"""How every model of a run attends: padded rows as the library does it, or rows without padding."""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

ATTENTION = "earl"
"""Name that the library knows this implementation by."""


@runtime_checkable
class Packing(Protocol):
    """Sequences that lie one after the other in a single row, and what each of them may see."""

    def attend(
        self,
        layer: int,
        query: Float[Tensor, "1 heads tokens head_dim"],
        key: Float[Tensor, "1 kv_heads tokens head_dim"],
        value: Float[Tensor, "1 kv_heads tokens head_dim"],
        *,
        scaling: float,
    ) -> Float[Tensor, "1 heads tokens head_dim"]:
        """Attend within each sequence.

        Args:
            layer: Number of the layer.
            query: Of all tokens, positions applied.
            key: As `query`; a rank's share of the heads where a model is split.
            value: As `key`.
            scaling: Factor of the scores in front of the softmax.
        """
        ...


def use_attention(model: PreTrainedModel) -> None:
    """Let a model work on packed rows too; what it does with padded ones stays as it is."""
    model.set_attn_implementation(ATTENTION)


def packed_logits(
    model: PreTrainedModel,
    token_ids: Int64[Tensor, " tokens"],
    position_ids: Int64[Tensor, " tokens"],
    packing: Packing,
    *,
    keep: Int64[Tensor, " kept"],
) -> Float[Tensor, "kept vocab"]:
    """Run a model over packed sequences.

    Args:
        model: One that `use_attention` was called for.
        token_ids: [tokens] of all sequences one after the other.
        position_ids: [tokens], each in its own sequence.
        packing: Which token sees which.
        keep: [kept] the places, among the tokens, whose logits are wanted.
    """
    inputs = _packed_inputs(token_ids, position_ids, packing)
    return model(**inputs, logits_to_keep=keep).logits[0]


def packed_hidden(
    model: PreTrainedModel,
    token_ids: Int64[Tensor, " tokens"],
    position_ids: Int64[Tensor, " tokens"],
    packing: Packing,
    *,
    keep: Int64[Tensor, " kept"],
) -> Float[Tensor, "kept hidden"]:
    """Return what `packed_logits` applies the output layer to; takes the same arguments."""
    inputs = _packed_inputs(token_ids, position_ids, packing)
    return model.base_model(**inputs).last_hidden_state[0, keep]


def _packed_inputs(
    token_ids: Int64[Tensor, " tokens"], position_ids: Int64[Tensor, " tokens"], packing: Packing
) -> dict[str, Any]:  # Any: arguments of a model of the library
    return {
        "input_ids": token_ids[None],
        "position_ids": position_ids[None],
        # Given, so that the library makes no mask of tokens x tokens; the packing does not look.
        "attention_mask": torch.ones((1, 1, 1, 1), dtype=torch.bool, device=token_ids.device),
        "use_cache": False,
        "packing": packing,
    }


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float,
    packing: Packing | None = None,
    **rest: Any,  # noqa: ANN401 - whatever the library hands on
) -> tuple[Tensor, None]:
    if packing is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **rest
        )
    layer: int = getattr(module, "layer_idx")  # noqa: B009 - which no base class declares
    # The library takes [rows, tokens, heads, head_dim] back.
    return packing.attend(layer, query, key, value, scaling=scaling).transpose(1, 2), None


AttentionInterface.register(ATTENTION, _attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
