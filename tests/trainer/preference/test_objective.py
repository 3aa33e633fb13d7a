import math

import pytest
import torch
from earl_dispatch import Columns
from earl_trainer.algorithms.aggregation import sequence_mean
from earl_trainer.experience.prepare import score_columns
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.optimizer import MasterAdamW
from earl_trainer.preference.baseline import BASELINE
from earl_trainer.preference.lines import DESIRABLE, Line, demonstration_columns, pair_columns
from earl_trainer.preference.losses import PreferenceSettings, dpo, simpo
from earl_trainer.preference.objective import JudgedObjective, PairObjective

SETTINGS = PreferenceSettings(beta=0.5)


def line(*token_ids, num_prompt):
    trained = tuple(place >= num_prompt for place in range(len(token_ids)))
    return Line(token_ids=token_ids, trained=trained, num_prompt=num_prompt)


PAIRS = [
    (line(1, 2, 3, 4, num_prompt=2), line(1, 2, 5, num_prompt=2)),
    (line(7, 8, num_prompt=1), line(7, 9, 10, 3, 2, num_prompt=1)),
    (line(4, 4, 6, num_prompt=2), line(4, 4, 1, 1, num_prompt=2)),
]


def with_column(columns, name, values):
    return Columns(
        lengths=columns.lengths,
        per_token={**columns.per_token, name: values},
        per_row=columns.per_row,
    )


def score(model, columns):
    return score_columns(model, columns, temperature=1.0, max_tokens=64)


def gradient(model, objective, columns, *, max_tokens):
    model.zero_grad()
    learner = Learner(
        model,
        MasterAdamW(model, betas=(0.9, 0.95), weight_decay=0.0),
        objective,
        UpdateSettings(max_microbatch_tokens=max_tokens, max_grad_norm=1.0),
    )
    metrics = learner.accumulate(columns)
    return metrics, torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.fixture
def dpo_rows(make_llama):
    """Pairs scored by the model itself."""
    columns = pair_columns(PAIRS)
    return with_column(columns, "reference_logprobs", score(make_llama(), columns))


def test_lines_of_a_pair_are_scored_as_if_each_stood_alone(make_llama):
    model = make_llama()
    together = score(model, pair_columns(PAIRS))
    alone = score(model, demonstration_columns([each for pair in PAIRS for each in pair]))
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)


def test_the_loss_is_log_2_where_the_policy_is_its_reference(make_llama, dpo_rows):
    objective = PairObjective(function=dpo, settings=SETTINGS, temperature=1.0)
    metrics, _ = gradient(make_llama(), objective, dpo_rows, max_tokens=64)
    assert metrics["loss"] == pytest.approx(math.log(2.0), rel=1e-5)
    assert metrics["margin"] == pytest.approx(0.0, abs=1e-5)


def test_micro_batches_change_neither_loss_nor_gradient(make_llama, dpo_rows):
    model = make_llama(seed=1)
    objective = PairObjective(function=dpo, settings=SETTINGS, temperature=1.0)
    whole, whole_gradient = gradient(model, objective, dpo_rows, max_tokens=64)
    parts, parts_gradient = gradient(model, objective, dpo_rows, max_tokens=8)
    assert parts == pytest.approx(whole, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(parts_gradient, whole_gradient, rtol=1e-4, atol=1e-6)


def test_the_loss_of_rows_is_the_mean_of_the_closed_form(make_llama):
    model, columns = make_llama(), pair_columns(PAIRS)
    objective = PairObjective(
        function=simpo, settings=PreferenceSettings(beta=2.0, margin=0.3), temperature=1.0
    )
    metrics, _ = gradient(model, objective, columns, max_tokens=64)
    logprobs = score(model, demonstration_columns([each for pair in PAIRS for each in pair]))
    lengths = [len(each.token_ids) for pair in PAIRS for each in pair]
    answers = [len(each.answer_ids) for pair in PAIRS for each in pair]
    sums = [part.sum().item() for part in logprobs.split(lengths)]
    means = [total / number for total, number in zip(sums, answers, strict=True)]
    expected = [
        math.log1p(math.exp(-(2.0 * (chosen - rejected) - 0.3)))
        for chosen, rejected in zip(means[::2], means[1::2], strict=True)
    ]
    assert metrics["loss"] == pytest.approx(sum(expected) / 3, rel=1e-5)
    assert metrics["chosen_logprob"] == pytest.approx(sum(means[::2]) / 3, rel=1e-5)


def test_a_worker_without_a_row_passes_one_token_that_changes_nothing(make_llama, dpo_rows):
    model = make_llama()
    idle = Columns(
        lengths=torch.ones(1, dtype=torch.int64),
        per_token={
            **{name: column.new_zeros(1) for name, column in dpo_rows.per_token.items()},
            "weights": torch.zeros(1),
        },
        per_row={name: column.new_zeros(1) for name, column in dpo_rows.per_row.items()},
    )
    terms = PairObjective(function=dpo, settings=SETTINGS, temperature=1.0).loss(model, idle)
    terms.loss.backward()
    assert terms.loss.item() == 0.0
    assert all(not p.grad.any() for p in model.parameters() if p.grad is not None)


def test_kto_tells_good_from_bad_by_the_baseline(make_llama):
    model = make_llama()
    lines = [line(1, 2, 3, num_prompt=1), line(4, 5, num_prompt=1)]
    rows = demonstration_columns(lines)
    own = score(model, rows)
    # The policy is a nat above its reference on the first answer, on the second a nat below.
    shift = torch.zeros(5)
    shift[1], shift[4] = -1.0, 1.0
    columns = Columns(
        lengths=rows.lengths,
        per_token={**rows.per_token, "reference_logprobs": own + shift},
        per_row={DESIRABLE: torch.tensor([True, False]), BASELINE: torch.tensor([0.2, 0.2])},
    )
    objective = JudgedObjective(settings=SETTINGS, temperature=1.0)
    metrics, _ = gradient(model, objective, columns, max_tokens=64)
    good = 1 - 1 / (1 + math.exp(-0.5 * (1.0 - 0.2)))
    bad = 1 - 1 / (1 + math.exp(-0.5 * (0.2 + 1.0)))
    assert metrics["loss"] == pytest.approx((good + bad) / 2, rel=1e-4)
    assert metrics["accuracy"] == pytest.approx(1.0)
    assert metrics["margin"] == pytest.approx(0.5 * (0.8 + 1.2) / 2, rel=1e-4)


def test_rows_without_a_trained_token_do_not_count():
    columns = pair_columns([PAIRS[0], (line(1, 2, num_prompt=2), line(1, 3, num_prompt=2))])
    objective = PairObjective(function=dpo, settings=SETTINGS, temperature=1.0)
    weights, total = objective.weigh(columns)
    expected, _ = sequence_mean(columns.per_token["mask"], columns.lengths, columns.per_row)
    assert total.item() == 1.0
    assert torch.equal(weights, expected)
