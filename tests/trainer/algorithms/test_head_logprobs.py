import math

import pytest
import torch
from earl_trainer.algorithms.head_logprobs import Chunk, head_logprobs
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = Chunk(tokens=2, words=3)


def make(num_tokens, num_words, *, hidden=4, seed=0, dtype=torch.float64, size=1.0):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return (size * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype)

    targets = torch.randint(num_words, (num_tokens,), generator=generator)
    return draw(num_tokens, hidden), draw(num_words, hidden), draw(num_words), targets


def whole(hidden, weight, targets, *, temperature, bias_V=None, scale=1.0, softcap=None):
    """The definition, with all logits at once."""
    logits = hidden @ weight.T
    if bias_V is not None:
        logits = logits + bias_V
    logits = logits * scale
    if softcap is not None:
        logits = softcap * torch.tanh(logits / softcap)
    logprobs = (logits / temperature).log_softmax(-1)
    return logprobs.gather(-1, targets[:, None])[:, 0], -(logprobs.exp() * logprobs).sum(-1)


def value_and_gradients(compute, leaves, targets, **options):
    """Results, and gradients of a sum in which each of them has a weight of its own."""
    hidden, weight, bias = (leaf.clone().requires_grad_() for leaf in leaves)
    logprobs, entropy = compute(hidden, weight, targets, bias_V=bias, **options)
    weights = torch.linspace(-1.0, 2.0, len(targets), dtype=logprobs.dtype)
    ((weights * logprobs).sum() + (weights.flip(0) * entropy).sum()).backward()
    return [logprobs.detach(), entropy.detach(), hidden.grad, weight.grad, bias.grad]


@settings(max_examples=60, deadline=None)
@given(
    num_tokens=st.integers(0, 7),
    num_words=st.integers(1, 9),
    tokens=st.integers(1, 8),
    words=st.integers(1, 10),
    temperature=st.floats(0.3, 3.0),
    scale=st.floats(0.1, 4.0),
    softcap=st.none() | st.floats(1.0, 30.0),
    seed=st.integers(0, 1000),
)
def test_any_chunks_give_values_and_gradients_of_all_logits_at_once(
    num_tokens, num_words, tokens, words, temperature, scale, softcap, seed
):
    *leaves, targets = make(num_tokens, num_words, seed=seed)
    options = {"temperature": temperature, "scale": scale, "softcap": softcap}
    own = value_and_gradients(
        head_logprobs, leaves, targets, chunk=Chunk(tokens=tokens, words=words), **options
    )
    expected = value_and_gradients(whole, leaves, targets, **options)
    for mine, theirs in zip(own, expected, strict=True):
        torch.testing.assert_close(mine, theirs, atol=1e-11, rtol=1e-9)


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_gradients_agree_with_finite_differences(softcap):
    hidden, weight, bias, targets = make(5, 7)
    leaves = [leaf.requires_grad_() for leaf in (hidden, weight, bias)]

    def compute(hidden, weight, bias):
        return head_logprobs(
            hidden, weight, targets, temperature=0.7, bias_V=bias, scale=1.5, softcap=softcap,
            chunk=SMALL,
        )  # fmt: skip

    assert torch.autograd.gradcheck(compute, leaves)


def test_a_hand_computed_token():
    # Logits 1 and 3 at temperature 2: one e ahead.
    hidden, weight = torch.tensor([[1.0]]), torch.tensor([[1.0], [3.0]])
    logprobs, entropy = head_logprobs(hidden, weight, torch.tensor([0]), temperature=2.0)
    likely = math.e / (1.0 + math.e)
    assert logprobs.item() == pytest.approx(math.log(1.0 - likely))
    expected = -likely * math.log(likely) - (1.0 - likely) * math.log(1.0 - likely)
    assert entropy.item() == pytest.approx(expected)


def test_logits_far_from_zero_neither_overflow_nor_lose_digits():
    *leaves, targets = make(6, 9, size=10.0)
    own = value_and_gradients(
        head_logprobs, [leaf.float() for leaf in leaves], targets, temperature=1.0, chunk=SMALL
    )
    expected = value_and_gradients(whole, leaves, targets, temperature=1.0)
    for mine, theirs in zip(own, expected, strict=True):
        assert (mine.double() - theirs).norm() < 1e-4 * (1.0 + theirs.norm())


def test_low_precision_factors_are_scored_in_float32_and_get_gradients_of_their_own_precision():
    *leaves, targets = make(40, 50, hidden=16, dtype=torch.bfloat16, size=0.5)
    own = value_and_gradients(
        head_logprobs, leaves, targets, temperature=0.7, chunk=Chunk(tokens=16, words=16)
    )
    exact = value_and_gradients(whole, [leaf.double() for leaf in leaves], targets, temperature=0.7)
    assert [each.dtype for each in own] == [torch.float32] * 2 + [torch.bfloat16] * 3
    for mine, theirs in zip(own, exact, strict=True):
        # Logits of about 2 have a spacing of 2^-7.
        assert (mine.double() - theirs).norm() < 0.02 * theirs.norm()


def test_a_result_that_is_not_used_adds_nothing_to_the_gradient():
    *leaves, targets = make(5, 7)
    for used in (0, 1):
        grads = []
        for compute in (head_logprobs, whole):
            hidden, weight, _ = (leaf.clone().requires_grad_() for leaf in leaves)
            compute(hidden, weight, targets, temperature=1.3)[used].sum().backward()
            grads += [hidden.grad, weight.grad]
        torch.testing.assert_close(grads[:2], grads[2:])


def test_a_frozen_output_layer_gets_no_gradient_and_hidden_states_the_same():
    *leaves, targets = make(5, 7)
    hidden = leaves[0].clone().requires_grad_()
    head_logprobs(hidden, leaves[1], targets, temperature=1.0, chunk=SMALL)[0].sum().backward()
    expected = leaves[0].clone().requires_grad_()
    whole(expected, leaves[1], targets, temperature=1.0)[0].sum().backward()
    torch.testing.assert_close(hidden.grad, expected.grad)
    assert leaves[1].grad is None


def test_a_chunk_without_words_is_refused():
    with pytest.raises(ValueError, match="at least one token and one word"):
        Chunk(words=0)
