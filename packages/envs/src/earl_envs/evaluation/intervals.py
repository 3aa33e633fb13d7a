"""Confidence intervals of rates."""

import math
from collections.abc import Sequence

Interval = tuple[float, float]

Z_95 = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5 % above it."""
_MIN_SCORES = 20


def wilson_interval(successes: float | int, trials: float | int) -> Interval:
    """95 % score interval of a success rate.

    (p + z^2/2n -+ z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n) (Wilson, JASA 22, 1927), which
    stays inside [0, 1] and is right near its ends, where the normal interval is not.

    Args:
        successes: At most `trials`; a draw may count as half of one.
        trials: At least 1; no whole number where their effect is less than their number.
    """
    if not 0 <= successes <= trials or trials < 1:
        raise ValueError(f"need 0 <= successes <= trials and trials >= 1, got {successes}/{trials}")
    rate, z2 = successes / trials, Z_95**2
    centre = rate + z2 / (2 * trials)
    half = Z_95 * math.sqrt(rate * (1 - rate) / trials + z2 / (4 * trials**2))
    scale = 1 + z2 / trials
    # The ends are exact there: rounded, an interval would leave out the rate it belongs to.
    low = 0.0 if successes == 0 else (centre - half) / scale
    high = 1.0 if successes == trials else (centre + half) / scale
    return low, high


def mean_interval(scores: Sequence[float | int]) -> Interval:
    """95 % interval of the mean of independent scores in [0, 1].

    Wilson's interval of their mean p for p (1 - p) / v trials, where v = s^2 / n is the variance of
    the mean: so many trials would leave a rate as uncertain (E. Korn and B. Graubard, Survey
    Methodology 24, 1998; with Wilson's interval: C. Franco et al., Journal of Survey Statistics and
    Methodology 7, 2019).

    Fewer than 20 scores, or equal ones, say too little about s^2. Then each score is one trial,
    which is rather too wide: no scores in [0, 1] vary by more than p (1 - p).

    Args:
        scores: At least one.
    """
    if not scores or not 0 <= min(scores) <= max(scores) <= 1:
        raise ValueError(f"need at least one score, all in 0..1, got {list(scores)[:10]}")
    num_scores = len(scores)
    mean, trials = sum(scores) / num_scores, float(num_scores)
    if num_scores >= _MIN_SCORES and min(scores) < max(scores):
        variance = sum((score - mean) ** 2 for score in scores) / (num_scores - 1)
        trials = mean * (1 - mean) / (variance / num_scores)
    return wilson_interval(mean * trials, trials)


def difference_interval(
    successes_a: int, trials_a: int, successes_b: int, trials_b: int
) -> Interval:
    """95 % interval of rate_b - rate_a for two independent samples.

    Newcombe's hybrid of the two Wilson intervals (Statistics in Medicine 17, 1998, method 10):
    d - sqrt((p_b - l_b)^2 + (u_a - p_a)^2) to d + sqrt((u_b - p_b)^2 + (p_a - l_a)^2).
    """
    low_a, high_a = wilson_interval(successes_a, trials_a)
    low_b, high_b = wilson_interval(successes_b, trials_b)
    rate_a, rate_b = successes_a / trials_a, successes_b / trials_b
    difference = rate_b - rate_a
    return (
        difference - math.hypot(rate_b - low_b, high_a - rate_a),
        difference + math.hypot(high_b - rate_b, rate_a - low_a),
    )
