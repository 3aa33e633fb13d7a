"""How far the log-probs of an engine are from those before a switch, or from the learner's."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, product
from math import exp
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Log-probs of the same tokens under the same weights, computed in two ways."""

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
        after: The same, computed the other way.
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
        before: Per engine of the old degree, or of the learner alone, and per context, as in
            `compare_logprobs`.
        after: Per engine of the new degree.
    """
    drifts = [compare_logprobs(*pair) for pair in product(before, after)]
    known = [drift for drift in drifts if drift is not None]
    return max(known, key=lambda drift: drift.token_mult_prob_error, default=None)
