"""One forward pass over packed sequences, for training and for scoring alike."""

from jaxtyping import Bool, Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.algorithms.head_logprobs import head_logprobs
from earl_trainer.algorithms.logprobs import shifted_positions, spread, token_logprobs
from earl_trainer.models.attention import packed_hidden, packed_logits
from earl_trainer.models.output_layer import find_output_layer
from earl_trainer.models.packed_sequences import PackedSequences


def score(
    model: PreTrainedModel,
    token_ids: Int64[Tensor, " tokens"],
    mask: Bool[Tensor, " tokens"],
    lengths: Int64[Tensor, " sequences"],
    *,
    temperature: float,
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, " tokens"]]:
    """Log-prob and entropy of each trained token under `model`, 0 elsewhere; both carry gradients.

    Logits, by far the largest tensor of a language model, are computed only at positions in front
    of a trained token, and a chunk of them at a time where the model's output layer is a known one
    (`find_output_layer`). Sequences without a trained token give zeros that are still connected to
    the parameters, with zero gradients.

    Args:
        model: A causal language model that `use_attention` was called for.
        token_ids: [tokens] of all sequences one after the other, at least one.
        mask: [tokens], True where a token is trained.
        lengths: [sequences] tokens of each; few different ones side by side are fastest.
        temperature: The sampler's.

    Raises:
        ValueError: If the first token of some sequence is marked as trained.
    """
    packing = PackedSequences(lengths.tolist())
    position_ids = packing.position_ids.to(mask.device)
    # A pack's first token alone would be looked at below: there it is one row.
    if bool(mask[position_ids == 0].any()):
        raise ValueError("the first token of a sequence has no context and cannot be trained")
    positions = shifted_positions(mask[None])
    layer = find_output_layer(model)
    if layer is None:
        logits = packed_logits(model, token_ids, position_ids, packing, keep=positions)
        logprobs, entropy = token_logprobs(
            logits[None],
            positions_P=positions,
            token_ids_BT=token_ids[None],
            mask_BT=mask[None],
            temperature=temperature,
        )
        return logprobs[0], entropy[0]
    trained_logprobs, trained_entropy = head_logprobs(
        packed_hidden(model, token_ids, position_ids, packing, keep=positions),
        layer.weight,
        token_ids[positions + 1],
        temperature=temperature,
        bias_V=layer.bias,
        scale=layer.scale,
        softcap=layer.softcap,
    )
    return spread(trained_logprobs, mask), spread(trained_entropy, mask)
