"""How far the log-probs of an engine move when its tensor-parallel degree does."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import exp
from typing import final

import torch
from earl_dispatch import Columns

_MAX_CONTEXTS = 8
_MOST_TOKENS = 4096


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Log-probs of the same tokens under the same weights at two degrees."""

    num_tokens: int
    mean_difference: float
    """Of absolute differences, in nats."""
    max_difference: float
    token_mult_prob_error: float
    """Mean of exp(|difference|), 1 where nothing moved. Source: NVIDIA-NeMo/RL,
    docs/guides/dtensor-tp-accuracy.md, which suspects an engine above 1.05."""


def compare_logprobs(
    before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]
) -> Drift | None:
    """Compare the log-probs of a probe; None for an empty one.

    Args:
        before: Per context, of every token but the first.
        after: The same at the other degree.
    """
    differences = [
        abs(a - b)
        for a, b in zip(chain.from_iterable(before), chain.from_iterable(after), strict=True)
    ]
    if not differences:
        return None
    return Drift(
        num_tokens=len(differences),
        mean_difference=sum(differences) / len(differences),
        max_difference=max(differences),
        token_mult_prob_error=sum(map(exp, differences)) / len(differences),
    )


def find_worst_drift(
    before: Sequence[Sequence[Sequence[float]]], after: Sequence[Sequence[Sequence[float]]]
) -> Drift | None:
    """Compare every engine before with every one after; None where nothing was scored.

    Args:
        before: Per engine of the old degree, and per context, as in `compare_logprobs`.
        after: Per engine of the new degree.
    """
    drifts = [compare_logprobs(*pair) for pair in product(before, after)]
    known = [drift for drift in drifts if drift is not None]
    return max(known, key=lambda drift: drift.token_mult_prob_error, default=None)


def choose_probe(
    contexts: Sequence[Sequence[int]], *, max_tokens: int = _MOST_TOKENS
) -> list[list[int]]:
    """Choose the longest of some contexts, few enough to be scored in a moment.

    Args:
        contexts: To choose from.
        max_tokens: What one pass has memory for; a longer context is cut there.
    """
    most_tokens = min(max_tokens, _MOST_TOKENS)
    chosen: list[list[int]] = []
    num_tokens = 0
    for context in sorted(contexts, key=len, reverse=True)[:_MAX_CONTEXTS]:
        length = min(len(context), max_tokens)
        if length > 1 and num_tokens + length <= most_tokens:
            chosen.append(list(context[:length]))
            num_tokens += length
    return chosen


def probe_columns(contexts: Sequence[Sequence[int]]) -> Columns:
    """Lay contexts out for scoring: every token but the first of each counts."""
    lengths = torch.tensor([len(context) for context in contexts])
    ids = torch.tensor([token for context in contexts for token in context], dtype=torch.int32)
    mask = torch.ones(len(ids), dtype=torch.bool)
    mask[lengths.cumsum(0) - lengths] = False
    return Columns(lengths=lengths, per_token={"token_ids": ids, "mask": mask}, per_row={})
