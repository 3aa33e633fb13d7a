"""How long an advantage lasts, judged by how long it used to last."""

from collections.abc import Sequence
from itertools import pairwise


def expect_dwell_steps(wins: Sequence[bool]) -> float:
    """Estimate for how many more steps one choice stays better than another.

    (stays + 1) / (exits + 1), over the steps at which it was the better one: the mean p / (1 - p)
    of a geometric length with p = stays / (stays + exits), the maximum-likelihood estimate, after
    adding one stay and one exit (Laplace's rule of succession). A spell that goes on has no exit
    yet. So the first spell is expected to last as long again as it has lasted, and waiting until
    that pays is the ski-rental rule, which never costs more than twice what foresight would
    (Karlin, Manasse, Rudolph and Sleator 1988, "Competitive snoopy caching", Algorithmica 3).

    Args:
        wins: For each past step, oldest first, whether it was the better one.
    """
    num_stays = sum(now and then for then, now in pairwise(wins))
    num_exits = sum(then and not now for then, now in pairwise(wins))
    return (num_stays + 1) / (num_exits + 1)
