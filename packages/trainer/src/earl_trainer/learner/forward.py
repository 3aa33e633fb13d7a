"""One forward pass over padded rows, for training and for scoring alike."""

from jaxtyping import Bool, Float, Int64
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.algorithms.logprobs import shifted_positions, token_logprobs


def score(
    model: PreTrainedModel,
    token_ids: Int64[Tensor, "rows width"],
    mask: Bool[Tensor, "rows width"],
    *,
    temperature: float,
) -> tuple[Float[Tensor, "rows width"], Float[Tensor, "rows width"]]:
    """Log-prob and entropy of each trained token under `model`, 0 elsewhere.

    Logits, by far the largest tensor of a language model, are computed only at positions in front
    of a token that some row trains. Rows without one give zeros that are still connected to the
    parameters, with zero gradients.

    Args:
        model: A causal language model.
        token_ids: [rows, width], padded on the right.
        mask: [rows, width], True where a token is trained.
        temperature: The sampler's.
    """
    positions = shifted_positions(mask)
    logits = model(input_ids=token_ids, use_cache=False, logits_to_keep=positions).logits
    return token_logprobs(
        logits,
        positions_P=positions,
        token_ids_BT=token_ids,
        mask_BT=mask,
        temperature=temperature,
    )
