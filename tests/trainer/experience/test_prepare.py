import pytest
import torch
from earl_trainer.experience.prepare import Preparer


def score_alone(model, rows, row, temperature):
    """Log-probs of one row from a plain forward pass over it alone, all positions computed."""
    single = rows.select([row])
    ids = single.per_token["token_ids"].long()
    with torch.no_grad():
        logits = model(input_ids=ids[None]).logits[0]
    logprobs = (logits[:-1] / temperature).log_softmax(-1).gather(-1, ids[1:, None])[:, 0]
    return torch.where(single.per_token["mask"], torch.cat([torch.zeros(1), logprobs]), 0.0)


@pytest.mark.parametrize("max_tokens", [9, 20, 1000])
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_each_row_gets_the_logprobs_it_has_alone_in_whatever_batch(
    make_llama, make_rows, max_tokens, temperature
):
    model, rows = make_llama(), make_rows([5, 9, 2, 7, 9])
    preparer = Preparer({"scored": model}, temperature=temperature, max_tokens=max_tokens)
    scored = preparer.prepare(rows).per_token["scored"]
    expected = torch.cat([score_alone(model, rows, row, temperature) for row in range(5)])
    assert torch.allclose(scored, expected, atol=1e-5)
    assert not scored[~rows.per_token["mask"]].any()


def test_each_scorer_fills_its_own_column_and_the_others_stay(make_llama, make_rows):
    rows = make_rows([4, 6])
    models = {"old_logprobs": make_llama(seed=1), "reference_logprobs": make_llama(seed=2)}
    prepared = Preparer(models, temperature=1.0, max_tokens=100).prepare(rows)
    for name, model in models.items():
        expected = torch.cat([score_alone(model, rows, row, 1.0) for row in range(2)])
        assert torch.allclose(prepared.per_token[name], expected, atol=1e-5)
    assert prepared.per_token["rollout_logprobs"] is rows.per_token["rollout_logprobs"]
    assert prepared.per_row == rows.per_row


def test_a_row_longer_than_a_pass_is_refused_with_both_lengths(make_llama, make_rows):
    preparer = Preparer({"scored": make_llama()}, temperature=1.0, max_tokens=8)
    with pytest.raises(ValueError, match="9 tokens does not fit a micro-batch of 8 tokens"):
        preparer.prepare(make_rows([5, 9]))


def test_no_rows_are_scored_without_a_pass(make_llama, make_rows):
    preparer = Preparer({"scored": make_llama()}, temperature=1.0, max_tokens=8)
    assert preparer.prepare(make_rows([5]).select([])).per_token["scored"].shape == (0,)


def test_scoring_leaves_no_gradient_behind(make_llama, make_rows):
    model = make_llama()
    prepared = Preparer({"scored": model}, temperature=1.0, max_tokens=100).prepare(make_rows([4]))
    assert not prepared.per_token["scored"].requires_grad
    assert all(parameter.grad is None for parameter in model.parameters())


def test_what_is_made_of_scored_samples_is_what_the_stage_returns(make_llama, make_rows):
    preparer = Preparer(
        {"scored": make_llama()},
        temperature=1.0,
        max_tokens=100,
        finish=lambda columns: columns.select([1] if "scored" in columns.per_token else [0]),
    )
    assert preparer.prepare(make_rows([4, 6])).lengths.tolist() == [6]
