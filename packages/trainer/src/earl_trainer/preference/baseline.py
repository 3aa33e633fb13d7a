"""KTO's baseline: how far the policy has gone from its reference, from mismatched answers."""

from dataclasses import replace

import torch
from earl_dispatch import Columns

from earl_trainer.preference.lines import MISMATCHED
from earl_trainer.preference.losses import kto_baseline
from earl_trainer.workers.group import Group

BASELINE = "baseline"
"""Column per row: z of the step."""
POLICY_LOGPROBS = "policy_logprobs"
"""Column per token: log-probs under the weights before the step's first update."""


def add_baseline(columns: Columns, workers: Group) -> Columns:
    """Replace the mismatched rows, and the scores that only they need, by the baseline.

    It is one number for all workers and updates of a step, so that neither micro-batches nor
    mini-batches change it. The authors' code takes it anew for every micro-batch; for the first
    update of a step, or the only one, that is the same but for the number of answers. Without
    mismatched rows, as all prompts are the same, it is 0: the least that the estimate can be, its
    value at the reference, and what TRL takes for losses that estimate none.

    Args:
        columns: Of `lines.judged_columns`, scored by the policy and by the reference.
        workers: All that have rows.
    """
    mismatched = columns.per_row[MISMATCHED]
    of_mismatched = mismatched.repeat_interleave(columns.lengths)
    log_ratios = columns.per_token[POLICY_LOGPROBS] - columns.per_token["reference_logprobs"]
    own = float(log_ratios[of_mismatched].double().sum()), int(mismatched.sum())
    told = workers.all_gather(own)
    baseline = kto_baseline(
        sum(total for total, _ in told), max(1, sum(number for _, number in told))
    )
    kept = columns.select((~mismatched).nonzero()[:, 0])
    per_token = {n: column for n, column in kept.per_token.items() if n != POLICY_LOGPROBS}
    per_row = {n: column for n, column in kept.per_row.items() if n != MISMATCHED}
    z = torch.full((kept.num_rows,), baseline, dtype=torch.float32)
    return replace(kept, per_token=per_token, per_row={**per_row, BASELINE: z})
