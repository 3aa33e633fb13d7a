import pytest
import torch
from earl_trainer.learner.forward import score
from earl_trainer.models.attention import use_attention
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Qwen2Config, Qwen2ForCausalLM

LENGTHS = [5, 7, 5, 2, 9, 2]


def make_qwen2():
    """Biases, and two heads to each pair of key and value."""
    config = Qwen2Config(
        vocab_size=11,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.3,
    )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(3)
        return Qwen2ForCausalLM(config).eval()


@pytest.fixture(params=["llama", "shared keys", "learned positions"])
def model(request, make_llama, make_gpt2):
    made = {"llama": make_llama, "shared keys": make_qwen2, "learned positions": make_gpt2}
    model = made[request.param]().eval()
    use_attention(model)
    return model


@pytest.fixture
def rows(make_rows):
    return make_rows(LENGTHS)


def score_rows(model, rows, *, temperature=1.0):
    return score(
        model,
        rows.per_token["token_ids"].long(),
        rows.per_token["mask"],
        rows.lengths,
        temperature=temperature,
    )


def score_one_by_one(model, rows, temperature):
    """Log-probs and entropies from plain passes over one sequence each, all positions computed."""
    logprobs, entropies = torch.zeros(rows.num_tokens), torch.zeros(rows.num_tokens)
    for start, length in zip(rows.offsets().tolist(), rows.lengths.tolist(), strict=True):
        ids = rows.per_token["token_ids"][start : start + length].long()
        logits = model(input_ids=ids[None]).logits[0].float() / temperature
        table = logits.log_softmax(-1)
        logprobs[start + 1 : start + length] = table[:-1].gather(-1, ids[1:, None])[:, 0]
        entropies[start + 1 : start + length] = torch.distributions.Categorical(
            logits=logits[:-1]
        ).entropy()
    mask = rows.per_token["mask"]
    return torch.where(mask, logprobs, 0.0), torch.where(mask, entropies, 0.0)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_sequences_score_as_each_does_alone(model, rows, temperature):
    logprobs, entropies = score_rows(model, rows, temperature=temperature)
    expected, expected_entropies = score_one_by_one(model, rows, temperature)
    assert (logprobs[rows.per_token["mask"]] < 0).all()
    torch.testing.assert_close(logprobs, expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(entropies, expected_entropies, atol=1e-5, rtol=0)


def test_gradients_are_those_of_each_sequence_alone(model, rows):
    weights = torch.linspace(-1.0, 1.0, rows.num_tokens)
    gradients = []
    for compute in (score_rows, score_one_by_one):
        model.zero_grad()
        (compute(model, rows, temperature=1.0)[0] * weights).sum().backward()
        gradients.append(torch.cat([each.grad.flatten() for each in model.parameters()]))
    own, expected = gradients
    assert (own - expected).norm() < 1e-5 * expected.norm()


def test_in_low_precision_packed_sequences_score_as_each_does_alone_up_to_rounding(
    make_llama, rows
):
    model = make_llama(dtype=torch.bfloat16)
    use_attention(model)
    logprobs, _ = score_rows(model, rows)
    expected, _ = score_one_by_one(model, rows, 1.0)
    assert logprobs.dtype == torch.float32
    # Eight bits of logits of about 3.
    assert (logprobs - expected).abs().max() < 0.05
    logprobs.sum().backward()
    assert all(each.grad.isfinite().all() for each in model.parameters())


def test_tokens_elsewhere_do_not_change_a_trained_tokens_logprob(model, rows):
    before, _ = score_rows(model, rows)
    tokens = rows.per_token["token_ids"]
    tokens[5:12] = (tokens[5:12] + 1) % 11  # The second sequence.
    after, _ = score_rows(model, rows)
    assert torch.allclose(before[:5], after[:5], atol=1e-6)
    assert torch.allclose(before[12:], after[12:], atol=1e-6)
    assert (before[5:12] - after[5:12]).abs().max() > 1e-3


class Products(TorchDispatchMode):
    """Records how many tokens get scores of the whole vocabulary."""

    def __init__(self):
        super().__init__()
        self.num_tokens = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.mm.default and result.shape[-1] == 11:
            self.num_tokens.append(len(result))
        return result


def test_logits_are_computed_only_in_front_of_trained_tokens(make_llama, rows):
    model = make_llama()
    use_attention(model)
    with torch.no_grad(), Products() as products:
        score_rows(model, rows)
    assert products.num_tokens == [int(rows.per_token["mask"].sum())]


def test_a_model_that_makes_its_own_logits_scores_alike(make_llama, rows):
    model, kept = make_llama(), []
    use_attention(model)
    weights = torch.linspace(-1.0, 1.0, rows.num_tokens)
    found = []
    for _ in range(2):
        model.zero_grad()
        logprobs, entropy = score_rows(model, rows, temperature=0.7)
        (weights * logprobs + weights.flip(0) * entropy).sum().backward()
        gradient = torch.cat([each.grad.flatten() for each in model.parameters()])
        found.append((logprobs.detach(), entropy.detach(), gradient))
        # From now on the output layer is none that is known.
        model.lm_head.__class__ = type("OwnLinear", (torch.nn.Linear,), {})
        model.lm_head.register_forward_hook(lambda _module, _inputs, out: kept.append(out.shape))
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)
    assert kept == [(1, int(rows.per_token["mask"].sum()), 11)]


def test_sequences_without_a_trained_token_give_zeros_with_zero_gradients(make_llama, rows):
    model = make_llama()
    use_attention(model)
    rows.per_token["mask"].zero_()
    logprobs, entropy = score_rows(model, rows)
    assert not logprobs.any()
    assert not entropy.any()
    logprobs.sum().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and not gradient.any() for gradient in gradients)


@pytest.mark.parametrize("sequence", range(len(LENGTHS)))
def test_the_first_token_of_no_sequence_can_be_trained(make_llama, rows, sequence):
    model = make_llama()
    use_attention(model)
    rows.per_token["mask"][rows.offsets()[sequence]] = True
    with pytest.raises(ValueError, match="first token of a sequence has no context"):
        score_rows(model, rows)
