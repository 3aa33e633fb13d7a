"""Choosing the next token from logits."""

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor


def sample_tokens(
    logits: Float[Tensor, "rows vocab"],
    *,
    temperatures: Float64[np.ndarray, " rows"],
    uniforms: Float64[np.ndarray, " rows"],
) -> tuple[Int64[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Sample one token per row by inverting the cumulative distribution at a given uniform draw.

    Args:
        logits: [rows, vocab], any floating dtype; computed with in float32.
        temperatures: [rows]; a row at 0 takes its most likely token.
        uniforms: [rows], each in [0, 1).

    Returns:
        Token ids [rows] and their log softmax(logits / temperature) [rows] in float32; rows at
        temperature 0 get the log-prob at temperature 1.
    """
    greedy = torch.from_numpy(temperatures == 0.0).to(logits.device)
    scale = torch.from_numpy(np.where(temperatures == 0.0, 1.0, temperatures)).to(logits.device)
    logprobs = (logits.float() / scale[:, None].float()).log_softmax(-1)
    cumulative = logprobs.exp().cumsum(-1, dtype=torch.float64)
    threshold = torch.from_numpy(uniforms).to(logits.device)[:, None] * cumulative[:, -1:]
    # right=True: the first entry strictly above the threshold, which never has probability zero.
    drawn = torch.searchsorted(cumulative, threshold, right=True)[:, 0]
    ids = torch.where(greedy, logprobs.argmax(-1), drawn.clamp(max=logits.shape[-1] - 1))
    return ids, logprobs.gather(-1, ids[:, None])[:, 0]
