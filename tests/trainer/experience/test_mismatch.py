import math
from dataclasses import replace

import pytest
import torch
from earl_dispatch import Columns
from earl_trainer.experience.mismatch import mismatch_figures


def alone(values):
    return values


COLUMNS = Columns(
    lengths=torch.tensor([4]),
    per_token={
        "mask": torch.tensor([False, True, True, True]),
        # The last token is a script's.
        "versions": torch.tensor([-1, 2, 2, -1], dtype=torch.int32),
        "rollout_logprobs": torch.tensor([0.0, -1.0, -1.0, 0.0]),
        "old_logprobs": torch.tensor([9.0, -1.0 + math.log(2.0), -1.0, -5.0]),
    },
    per_row={},
)


def test_figures_are_of_the_trained_tokens_that_an_engine_emitted():
    figures = mismatch_figures(COLUMNS, alone)
    # Weights 2 and 1; k3 from the engine's samples is w - 1 - log w.
    assert figures == pytest.approx({
        "mismatch/mean_weight": 1.5,
        "mismatch/effective_share": 9.0 / (2 * 5.0),
        "mismatch/kl": (1.0 - math.log(2.0)) / 2,
    })


def test_equal_numerics_have_no_mismatch():
    same = {**COLUMNS.per_token, "old_logprobs": COLUMNS.per_token["rollout_logprobs"]}
    assert mismatch_figures(replace(COLUMNS, per_token=same), alone) == {
        "mismatch/mean_weight": 1.0,
        "mismatch/effective_share": 1.0,
        "mismatch/kl": 0.0,
    }


def test_without_recomputed_logprobs_or_an_engine_there_is_nothing_to_tell():
    without = {name: each for name, each in COLUMNS.per_token.items() if name != "old_logprobs"}
    assert mismatch_figures(replace(COLUMNS, per_token=without), alone) == {}
    scripted = {**COLUMNS.per_token, "versions": torch.full((4,), -1, dtype=torch.int32)}
    assert mismatch_figures(replace(COLUMNS, per_token=scripted), alone) == {}
