"""Sums over a changing array of weights, and places drawn in proportion to them."""

from typing import final

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import NDArray


@final
class SumTree:
    """A complete binary tree whose leaves are weights and whose other nodes are sums.

    Setting n leaves or finding n places takes O(n log N) (Schaul et al., "Prioritized Experience
    Replay", arXiv:1511.05952, appendix B.2.1). A node is always computed anew as the sum of its two
    children, in float64: the sums that add differences to nodes drift away from their leaves.

    Args:
        capacity: Number of leaves, of any size; all are 0 at first.

    Example:
        >>> tree = SumTree(3)
        >>> tree.set(np.array([0, 2]), np.array([1.0, 3.0]))
        >>> tree.total, tree.find(np.array([0.5, 1.0, 3.9])).tolist()
        (4.0, [0, 2, 2])
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be >= 1, got {capacity}")
        self._first_leaf = 1 << (capacity - 1).bit_length()
        self._depth = (capacity - 1).bit_length()
        self._capacity = capacity
        # Node n has the children 2 n and 2 n + 1; the root is node 1.
        self._nodes = np.zeros(2 * self._first_leaf, dtype=np.float64)

    @property
    def total(self) -> float:
        """The sum of all leaves."""
        return float(self._nodes[1])

    @property
    def leaves(self) -> Float64[np.ndarray, " capacity"]:
        """A copy of the weights."""
        return self._nodes[self._first_leaf : self._first_leaf + self._capacity].copy()

    def set(self, places: Int64[np.ndarray, " n"], weights: Float64[np.ndarray, " n"]) -> None:
        """Change the weights of some leaves; where a place is named twice the last one counts.

        Raises:
            ValueError: If a place is no leaf, or a weight is negative or not finite.
        """
        if not len(places):
            return
        if places.min() < 0 or places.max() >= self._capacity:
            raise ValueError(
                f"places must be in 0..{self._capacity - 1}, got {places.min()}..{places.max()}"
            )
        if not np.isfinite(weights).all() or weights.min() < 0:
            raise ValueError(f"weights must be finite and >= 0, got {weights}")
        nodes: NDArray[np.int64] = places + self._first_leaf
        self._nodes[nodes] = weights
        for _ in range(self._depth):
            nodes = np.unique(nodes >> 1)
            self._nodes[nodes] = self._nodes[2 * nodes] + self._nodes[2 * nodes + 1]

    def find(self, masses: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        """Return for each mass the place i with w_0 + ... + w_(i-1) <= mass < w_0 + ... + w_i.

        A leaf of weight 0 is never returned, whatever rounding does to a mass on its way down.

        Args:
            masses: In 0..`total`.

        Raises:
            ValueError: If all weights are 0.
        """
        if self.total <= 0.0:
            raise ValueError("a place is drawn in proportion to weights, of which all are 0")
        nodes = np.ones(len(masses), dtype=np.int64)
        rest = masses.astype(np.float64)
        for _ in range(self._depth):
            left, right = self._nodes[2 * nodes], self._nodes[2 * nodes + 1]
            goes_left = ((rest < left) | (right == 0.0)) & (left > 0.0)
            rest = np.where(goes_left, rest, rest - left)
            nodes = 2 * nodes + ~goes_left
        return nodes - self._first_leaf


def stratified_masses(
    total: float, num_draws: int, rng: np.random.Generator
) -> Float64[np.ndarray, " num_draws"]:
    """Draw one mass from each of `num_draws` equal stretches of 0..`total`.

    Schaul et al. (arXiv:1511.05952), section 3.3 and appendix B.2.1: minibatches that are spread
    over the priorities, each draw's place still taken in proportion to its weight on average.
    """
    return (np.arange(num_draws) + rng.random(num_draws)) * (total / max(1, num_draws))
