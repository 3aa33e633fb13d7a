"""One forward pass over packed sequences, for training and for scoring alike."""

from jaxtyping import Bool, Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.algorithms.logprobs import shifted_positions, token_logprobs
from earl_trainer.models.attention import packed_logits
from earl_trainer.models.packed_sequences import PackedSequences


def score(
    model: PreTrainedModel,
    token_ids: Int64[Tensor, " tokens"],
    mask: Bool[Tensor, " tokens"],
    lengths: Int64[Tensor, " sequences"],
    *,
    temperature: float,
) -> tuple[Float[Tensor, " tokens"], Float[Tensor, " tokens"]]:
    """Log-prob and entropy of each trained token under `model`, 0 elsewhere.

    Logits, by far the largest tensor of a language model, are computed only at positions in front
    of a trained token. Sequences without one give zeros that are still connected to the parameters,
    with zero gradients.

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
    logits = packed_logits(model, token_ids, position_ids, packing, keep=positions)
    logprobs, entropy = token_logprobs(
        logits[None],
        positions_P=positions,
        token_ids_BT=token_ids[None],
        mask_BT=mask[None],
        temperature=temperature,
    )
    return logprobs[0], entropy[0]
