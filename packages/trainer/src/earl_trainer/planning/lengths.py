"""How long generated sequences are, and how alike those of one prompt are."""

from dataclasses import dataclass
from math import exp, inf, log
from statistics import NormalDist
from typing import Final, final

import numpy as np
from jaxtyping import Int

_NORMAL: Final = NormalDist()
_Z_99: Final = _NORMAL.inv_cdf(0.99)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LogNormalLengths:
    """Log-normal lengths, cut at a maximum; log-lengths of one prompt share part of their variance.

    Example:
        >>> LogNormalLengths(median_tokens=100, tail_ratio=1, max_tokens=200).mean_tokens
        100.0
    """

    median_tokens: float | int
    """Of the lengths before they are cut."""
    tail_ratio: float | int
    """99th percentile over the median, before lengths are cut; 1 makes all alike."""
    max_tokens: int
    prompt_share: float | int = 0.5
    """Part of the variance of log-lengths that lies between prompts and not within their groups."""

    def __post_init__(self) -> None:
        if not 1 <= self.median_tokens < inf:
            raise ValueError(f"median_tokens must be >= 1, got {self.median_tokens}")
        if not 1 <= self.tail_ratio < inf:
            raise ValueError(f"tail_ratio must be >= 1, got {self.tail_ratio}")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be >= 1, got {self.max_tokens}")
        if not 0 <= self.prompt_share <= 1:
            raise ValueError(f"prompt_share must be in [0, 1], got {self.prompt_share}")

    @property
    def sigma(self) -> float:
        """Return the standard deviation of log-lengths."""
        return log(self.tail_ratio) / _Z_99

    @property
    def mean_tokens(self) -> float:
        """Return the mean length, cut ones included; draws round to whole tokens."""
        return self._moment(1)

    @property
    def mean_context_tokens(self) -> float:
        """Return the tokens that a sequence in flight has on average, E[n^2] / (2 E[n]).

        The mean age of a renewal process seen at any moment (Ross, Introduction to Probability
        Models, 10th ed., example 7.18): long sequences are met more often.
        """
        return self._moment(2) / (2 * self._moment(1))

    def draw(
        self, num_groups: int, group_size: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "num_groups group_size"]:
        """Draw the lengths of groups of sequences."""
        of_prompt = generator.standard_normal((num_groups, 1))
        of_sequence = generator.standard_normal((num_groups, group_size))
        share = self.prompt_share
        deviation = share**0.5 * of_prompt + (1 - share) ** 0.5 * of_sequence
        tokens = np.rint(self.median_tokens * np.exp(self.sigma * deviation))
        return np.clip(tokens, 1, self.max_tokens).astype(np.int64)

    def _moment(self, power: int) -> float:
        """Return E[min(X, m)^k] = M^k exp(k^2 s^2 / 2) F(z - k s) + m^k (1 - F(z)).

        F is the normal distribution function and z = log(m / M) / s: the partial expectation of a
        log-normal variable (Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 1,
        2nd ed., section 14.3) and the mass that is cut.
        """
        sigma, ratio = self.sigma, self.max_tokens / self.median_tokens
        if sigma == 0:
            return float(min(self.median_tokens, self.max_tokens) ** power)
        z = log(ratio) / sigma
        below = exp((power * sigma) ** 2 / 2) * _NORMAL.cdf(z - power * sigma)
        cut = ratio**power * (1 - _NORMAL.cdf(z))
        return self.median_tokens**power * (below + cut)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EmpiricalLengths:
    """Lengths as they were measured; whole groups are drawn, each equally likely."""

    groups: tuple[tuple[int, ...], ...]
    """The lengths of each measured group, all of one size."""

    def __post_init__(self) -> None:
        if len({len(group) for group in self.groups}) != 1 or not self.groups[0]:
            sizes = sorted({len(group) for group in self.groups})
            raise ValueError(f"measured groups must be of one size >= 1, got sizes {sizes}")
        shortest = min(min(group) for group in self.groups)
        if shortest < 1:
            raise ValueError(f"measured lengths must be >= 1, got {shortest}")

    @property
    def mean_tokens(self) -> float:
        """Return the mean length."""
        return float(np.mean(self.groups))

    @property
    def max_tokens(self) -> int:
        """Return the longest length."""
        return max(max(group) for group in self.groups)

    def draw(
        self, num_groups: int, group_size: int, generator: np.random.Generator
    ) -> Int[np.ndarray, "num_groups group_size"]:
        """Draw groups with replacement.

        Raises:
            ValueError: If measured groups have another size.
        """
        measured = np.array(self.groups, dtype=np.int64)
        if measured.shape[1] != group_size:
            raise ValueError(
                f"measured groups have {measured.shape[1]} sequences, not {group_size}"
            )
        return measured[generator.integers(len(measured), size=num_groups)]


Lengths = LogNormalLengths | EmpiricalLengths
"""Where a simulation gets its lengths from."""
