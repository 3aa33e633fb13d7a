import math

import pytest
import torch
from earl_trainer.algorithms.logprobs import shifted_positions, token_logprobs

TOKENS = torch.tensor([[0, 2, 1, 0], [1, 1, 2, 2]])
MASK = torch.tensor([[False, True, False, True], [False, False, True, True]])
LOGITS = torch.tensor([
    [[1.0, 0.0, 2.0], [0.5, 0.5, 0.0], [3.0, -1.0, 0.0], [9.0, 9.0, 9.0]],
    [[0.0, 4.0, 1.0], [1.0, 2.0, 3.0], [-2.0, 0.0, 0.5], [7.0, 1.0, 0.0]],
])


def evaluate(logits, *, temperature=1.0, mask=MASK):
    positions = shifted_positions(mask)
    return token_logprobs(
        logits[:, positions],
        positions_P=positions,
        token_ids_BT=TOKENS,
        mask_BT=mask,
        temperature=temperature,
    )


def log_softmax(row, target, temperature):
    scaled = [value / temperature for value in row]
    return scaled[target] - math.log(sum(math.exp(value) for value in scaled))


@pytest.mark.parametrize("temperature", [1.0, 0.7, 2.5])
def test_logprob_of_a_token_is_read_one_position_before_it_at_the_temperature(temperature):
    logprobs, entropy = evaluate(LOGITS, temperature=temperature)
    for row in range(2):
        for token in range(4):
            if not MASK[row, token]:
                assert logprobs[row, token] == entropy[row, token] == 0.0
                continue
            before = LOGITS[row, token - 1].tolist()
            terms = [log_softmax(before, word, temperature) for word in range(3)]
            expected_entropy = -sum(math.exp(term) * term for term in terms)
            assert logprobs[row, token].item() == pytest.approx(
                terms[int(TOKENS[row, token])], rel=1e-6
            )
            assert entropy[row, token].item() == pytest.approx(expected_entropy, rel=1e-5)


@pytest.mark.parametrize("position", [0, 1, 2])
def test_logits_at_a_position_move_only_the_logprob_of_the_next_token(position):
    everything = torch.ones(2, 4, dtype=torch.bool)
    everything[:, 0] = False
    moved = LOGITS.clone()
    moved[:, position, 0] += 1.0
    before, _ = evaluate(LOGITS, mask=everything)
    after, _ = evaluate(moved, mask=everything)
    changed = (before != after).all(0)
    assert changed.tolist() == [token == position + 1 for token in range(4)]


@pytest.mark.parametrize("poison", [math.nan, math.inf, -math.inf])
def test_poisoned_logits_in_front_of_masked_tokens_reach_neither_value_nor_gradient(poison):
    def run(logits):
        leaf = logits.clone().requires_grad_()
        logprobs, entropy = evaluate(leaf)
        (logprobs * torch.arange(8.0).reshape(2, 4)).sum().backward()
        return logprobs.detach(), entropy, leaf.grad

    needed = torch.zeros(2, 4, dtype=torch.bool)
    needed[:, :-1] = MASK[:, 1:]
    poisoned = LOGITS.clone()
    poisoned[~needed] = poison
    for clean, dirty in zip(run(LOGITS), run(poisoned), strict=True):
        assert torch.equal(clean, dirty)


def test_low_precision_logits_are_scored_in_float32():
    logprobs, _ = evaluate(LOGITS.bfloat16(), temperature=0.7)
    exact, _ = evaluate(LOGITS, temperature=0.7)
    assert torch.equal(logprobs, exact)


def test_only_positions_in_front_of_a_trained_token_are_asked_for():
    mask = torch.tensor([
        [False, False, True, False, False],
        [False, False, False, False, True],
    ])
    assert shifted_positions(mask).tolist() == [1, 3]


def test_a_trained_first_token_is_refused():
    with pytest.raises(ValueError, match="first token"):
        shifted_positions(torch.tensor([[False, True], [True, False]]))
