"""How far what generated a step's tokens is from what learns from them."""

from collections.abc import Callable

from earl_dispatch import Columns

from earl_trainer.algorithms.importance import effective_share
from earl_trainer.algorithms.kl import k3, log_ratio
from earl_trainer.rollout.engine import NO_WEIGHTS


def mismatch_figures(
    columns: Columns, add_up: Callable[[list[float]], list[float]]
) -> dict[str, float]:
    """Compare recorded with recomputed log-probs, at all trained tokens, before any is left out.

    Of w = policy before the update / policy that emitted the token: its mean, the effective
    sample size as a share of the tokens, and the divergence k3 of the one from the other, in nats
    per token. Engine and learner that compute alike, with the same weights, have 1, 1 and 0.

    Args:
        columns: Rows of this worker.
        add_up: Sums numbers over all workers.

    Returns:
        Nothing where log-probs were not recomputed, or no engine emitted anything.
    """
    old = columns.per_token.get("old_logprobs")
    if old is None:
        return {}
    emitted = columns.per_token["mask"] & (columns.per_token["versions"] > NO_WEIGHTS)
    recorded = columns.per_token["rollout_logprobs"][emitted].double()
    recomputed = old[emitted].double()
    weights = log_ratio(recomputed, recorded).exp()
    count, total, squares, divergence = add_up([
        float(len(weights)),
        float(weights.sum()),
        float(weights.square().sum()),
        # From samples of the engine's policy.
        float(k3(recorded, recomputed).sum()),
    ])
    if not count:
        return {}
    return {
        "mismatch/mean_weight": total / count,
        "mismatch/effective_share": effective_share(total, squares, count),
        "mismatch/kl": divergence / count,
    }
