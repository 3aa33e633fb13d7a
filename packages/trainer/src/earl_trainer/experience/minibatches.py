"""Which rows each update of a step looks at."""

from collections.abc import Sequence

import torch
from jaxtyping import Int64
from torch import Tensor


def shuffle_minibatches(
    num_rows: int, *, num_minibatches: int, num_epochs: int, seed: int
) -> list[list[Int64[Tensor, "_"]]]:
    """Shuffle a step's rows into the mini-batches of every pass over them.

    Args:
        num_rows: Rows of all workers together.
        num_minibatches: Updates in a pass; fewer if there are fewer rows, but one without any.
        num_epochs: Passes.
        seed: Of the shuffles.

    Returns:
        Per pass its mini-batches: every row once, sizes that differ by at most one.
    """
    rng = torch.Generator().manual_seed(seed)
    num_minibatches = max(1, min(num_minibatches, num_rows))
    return [
        list(torch.randperm(num_rows, generator=rng).tensor_split(num_minibatches))
        for _ in range(num_epochs)
    ]


def places_among(own: Sequence[int], rows: Int64[Tensor, "_"]) -> Int64[Tensor, " own_rows"]:
    """Return which of its rows a worker adds to a mini-batch, in the mini-batch's order.

    Args:
        own: Numbers of the rows that the worker has, ascending.
        rows: Numbers of the mini-batch's rows.
    """
    held = torch.tensor(own, dtype=torch.int64)
    if not len(held):
        return held
    places = torch.searchsorted(held, rows).clamp(max=len(held) - 1)
    return places[held[places] == rows]
