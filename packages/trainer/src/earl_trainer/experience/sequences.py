"""Where the sequences of a batch begin: a row is one, or two of which one is preferred."""

import torch
from earl_dispatch import Columns
from jaxtyping import Int64
from torch import Tensor

CHOSEN_TOKENS = "chosen_tokens"
"""Column per row of a pair: how many of its tokens are the chosen sequence; the rest is the other.
"""


def sequence_lengths(columns: Columns) -> Int64[Tensor, " sequences"]:
    """Return the tokens of each sequence, none of which sees another's, in the order of the tokens.

    Args:
        columns: Rows of one sequence each; or, where they have `chosen_tokens`, of two.
    """
    if CHOSEN_TOKENS not in columns.per_row:
        return columns.lengths
    chosen = columns.per_row[CHOSEN_TOKENS]
    lengths = torch.stack([chosen, columns.lengths - chosen], dim=1).flatten()
    return lengths[lengths > 0]
