"""The contexts that are scored at a switch, and how they are scored."""

from collections.abc import Sequence
from typing import Final

import torch
from earl_dispatch import Columns
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from earl_trainer.experience.prepare import score_columns

_MAX_CONTEXTS: Final = 8
_MOST_TOKENS: Final = 4096


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


def split_probe(columns: Columns, scored: Float[Tensor, " tokens"]) -> list[list[float]]:
    """Return, per context of `probe_columns`, the log-probs of every token but the first."""
    return [part[1:].tolist() for part in scored.split(columns.lengths.tolist())]


def score_probe(model: PreTrainedModel, probe: Sequence[Sequence[int]]) -> list[list[float]]:
    """Score contexts with a whole model in this process, as `split_probe` returns it.

    Args:
        model: The learner's.
        probe: What `choose_probe` chose.
    """
    if not probe:
        return []
    columns = probe_columns(probe)
    # No more at once than the longest, which the learner has room for as it trains such contexts.
    longest = int(columns.lengths.max())
    scored = score_columns(model, columns, temperature=1.0, max_tokens=longest)
    return split_probe(columns, scored)
