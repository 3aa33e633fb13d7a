"""Log-probabilities of the tokens that were emitted, and which logits they are read from.

Shape letters: B rows, T tokens, P kept positions, V vocabulary, N trained tokens.
"""

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor


def shifted_positions(mask_BT: Bool[Tensor, "B T"]) -> Int64[Tensor, " P"]:
    """Positions whose logits are needed: the ones in front of a trained token, in any row.

    The logits at position t-1 predict token t. Token 0 is predicted by nothing and must not be
    trained.

    Raises:
        ValueError: If token 0 of some row is marked as trained.
    """
    if bool(mask_BT[:, 0].any()):
        raise ValueError("the first token of a sequence has no context and cannot be trained")
    return mask_BT[:, 1:].any(0).nonzero()[:, 0]


def token_logprobs(
    logits_BPV: Float[Tensor, "B P V"],
    *,
    positions_P: Int64[Tensor, " P"],
    token_ids_BT: Int64[Tensor, "B T"],
    mask_BT: Bool[Tensor, "B T"],
    temperature: float,
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
    """Log-prob and entropy of each trained token, 0 elsewhere.

    log p(y_t) = log softmax(logits_{t-1} / temperature)[y_t] in float32, as the sampler computes it
    (Sutton and Barto, "Reinforcement Learning", 2nd ed., eq. 13.2 with the temperature inside).
    Only logits in front of a trained token take part, so whatever stands elsewhere, NaN included,
    reaches neither the value nor the gradient.

    Args:
        logits_BPV: Logits at `positions_P` of each row.
        positions_P: Ascending, from `shifted_positions`.
        token_ids_BT: Tokens.
        mask_BT: True where a token is trained.
        temperature: The sampler's, above 0.

    Returns:
        Log-probs [B, T] and entropies [B, T] in nats, both with gradient.
    """
    trained_BP = mask_BT[:, positions_P + 1]
    logits_NV = logits_BPV[trained_BP].float() / temperature
    logprobs_NV = logits_NV.log_softmax(-1)
    targets_N = token_ids_BT[:, positions_P + 1][trained_BP]
    logprobs_N = logprobs_NV.gather(-1, targets_N[:, None])[:, 0]
    entropy_N = -(logprobs_NV.exp() * logprobs_NV).sum(-1)
    return spread(logprobs_N, mask_BT), spread(entropy_N, mask_BT)


def spread(
    trained_N: Float[Tensor, " N"], mask: Bool[Tensor, "*tokens"]
) -> Float[Tensor, "*tokens"]:
    """Put values of trained tokens, row by row and ascending, to their places; 0 elsewhere."""
    zeros = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device)
    # masked_scatter fills in the order in which boolean indexing read.
    return zeros.masked_scatter(mask, trained_N)
