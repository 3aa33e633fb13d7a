"""Sequences one after the other in a single row, without a token of padding between them."""

from collections.abc import Sequence
from itertools import groupby
from typing import final

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


@final
class PackedSequences:
    """What each token of packed sequences sees: the tokens of its own sequence, up to itself.

    Neighbours of equal length are attended to in one batch. Sequences that are sorted by length so
    take as many calls in a layer as there are lengths.

    Args:
        lengths: Tokens of each sequence, in the order in which they lie.

    Example:
        >>> packing = PackedSequences([3, 3, 2])
        >>> packing.position_ids.tolist()
        [0, 1, 2, 0, 1, 2, 0, 1]
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self._runs = [
            (len(list(run)), length) for length, run in groupby(filter(None, lengths))
        ]  # (sequences, tokens of each)
        self._run_tokens = [num * length for num, length in self._runs]

    @property
    def position_ids(self) -> Int64[Tensor, " tokens"]:
        """The position of each token in its own sequence."""
        empty = torch.empty(0, dtype=torch.int64)
        return torch.cat([empty, *(torch.arange(each).repeat(num) for num, each in self._runs)])

    def attend(
        self,
        layer: int,
        query: Float[Tensor, "1 heads tokens head_dim"],
        key: Float[Tensor, "1 kv_heads tokens head_dim"],
        value: Float[Tensor, "1 kv_heads tokens head_dim"],
        *,
        scaling: float,
    ) -> Float[Tensor, "1 heads tokens head_dim"]:
        """Attend within each sequence; see `Packing`.

        Scores exist only within sequences, so memory and time grow with the squares of their
        lengths and not with that of the sum.
        """
        del layer
        # Of a split, the gradient is put together in one piece; of slices it would be a sum of
        # arrays of full length, one for each.
        runs = zip(
            self._runs,
            *(states[0].split(self._run_tokens, dim=1) for states in (query, key, value)),
            strict=True,
        )
        attended = [
            scaled_dot_product_attention(
                *(states.unflatten(1, run).transpose(0, 1) for states in (q, k, v)),
                is_causal=True,
                scale=scaling,
                enable_gqa=key.shape[1] != query.shape[1],
            )
            .transpose(1, 2)
            .flatten(0, 1)
            for run, q, k, v in runs
        ]
        return torch.cat(attended).transpose(0, 1)[None]
