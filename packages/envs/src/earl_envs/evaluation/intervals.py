"""Confidence intervals of rates."""

import math

Z_95 = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5 % above it."""


def wilson_interval(successes: float | int, trials: int) -> tuple[float, float]:
    """95 % score interval of a success rate.

    (p + z^2/2n -+ z sqrt(p (1 - p)/n + z^2/4n^2)) / (1 + z^2/n) (Wilson, JASA 22, 1927), which
    stays inside [0, 1] and is right near its ends, where the normal interval is not.

    Args:
        successes: At most `trials`; a draw may count as half of one.
        trials: At least 1.
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


def difference_interval(
    successes_a: int, trials_a: int, successes_b: int, trials_b: int
) -> tuple[float, float]:
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
