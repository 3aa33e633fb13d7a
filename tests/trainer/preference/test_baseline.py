import pytest
import torch
from earl_dispatch import Columns
from earl_trainer.preference.baseline import BASELINE, POLICY_LOGPROBS, add_baseline
from earl_trainer.preference.lines import DESIRABLE, MISMATCHED
from earl_trainer.workers.group import ALONE


def scored(policy):
    """Two answers of two tokens, and two mismatched ones."""
    return Columns(
        lengths=torch.full((4,), 2),
        per_token={
            "token_ids": torch.arange(8),
            POLICY_LOGPROBS: torch.tensor(policy),
            "reference_logprobs": torch.full((8,), -1.0),
        },
        per_row={
            DESIRABLE: torch.tensor([True, False, False, False]),
            MISMATCHED: torch.tensor([False, False, True, True]),
        },
    )


def test_the_baseline_is_the_mean_over_mismatched_answers_alone():
    columns = add_baseline(scored([9.0, 9.0, 9.0, 9.0, -0.5, 0.0, 0.0, -0.7]), ALONE)
    assert columns.per_token["token_ids"].tolist() == [0, 1, 2, 3]
    assert columns.per_row[BASELINE].tolist() == pytest.approx([1.4, 1.4])
    assert columns.per_row[DESIRABLE].tolist() == [True, False]
    assert set(columns.per_token) == {"token_ids", "reference_logprobs"}
    assert MISMATCHED not in columns.per_row


def test_a_policy_below_its_reference_has_baseline_0():
    columns = add_baseline(scored([-3.0] * 8), ALONE)
    assert columns.per_row[BASELINE].tolist() == [0.0, 0.0]


def test_one_prompt_alone_has_baseline_0():
    matched = scored([9.0] * 8).select([0, 1])
    columns = add_baseline(matched, ALONE)
    assert columns.per_row[BASELINE].tolist() == [0.0, 0.0]


def test_no_rows_have_no_baseline_and_stop_nobody():
    columns = add_baseline(scored([-3.0] * 8).select([]), ALONE)
    assert columns.num_rows == 0
    assert BASELINE in columns.per_row
