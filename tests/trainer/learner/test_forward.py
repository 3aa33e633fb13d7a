import pytest
import torch
from earl_trainer.learner.forward import score

TOKENS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
MASK = torch.tensor([[False, True, False, False, True], [False, False, True, True, False]])


@pytest.mark.parametrize("family", ["llama", "learned positions"])
def test_padding_of_any_amount_changes_no_logprob(make_llama, make_gpt2, family):
    model = make_llama() if family == "llama" else make_gpt2().eval()
    logprobs, entropy = score(model, TOKENS, MASK, temperature=1.0)
    assert (logprobs[MASK] < 0).all()
    for width in (1, 7):
        padded, padded_entropy = score(
            model,
            torch.nn.functional.pad(TOKENS, (0, width), value=8),
            torch.nn.functional.pad(MASK, (0, width), value=False),
            temperature=1.0,
        )
        assert torch.allclose(padded[:, :5], logprobs, atol=1e-6)
        assert torch.allclose(padded_entropy[:, :5], entropy, atol=1e-6)
        assert not padded[:, 5:].any()


def test_tokens_behind_a_trained_token_do_not_change_its_logprob(make_llama):
    model = make_llama()
    other = TOKENS.clone()
    other[1, 3:] = 7
    before, _ = score(model, TOKENS, MASK, temperature=1.0)
    after, _ = score(model, other, MASK, temperature=1.0)
    assert torch.allclose(before[0], after[0], atol=1e-6)
    assert torch.allclose(before[1, 2], after[1, 2], atol=1e-6)
    assert abs(before[1, 3] - after[1, 3]) > 1e-3


def test_rows_without_a_trained_token_give_zeros_with_zero_gradients(make_llama):
    model = make_llama()
    logprobs, entropy = score(model, TOKENS, torch.zeros_like(MASK), temperature=1.0)
    assert not logprobs.any()
    assert not entropy.any()
    logprobs.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)
