"""Inverting the cumulative distribution: the right tokens at the right rates."""

import numpy as np
import pytest
import torch
from earl_trainer.rollout.sampling import sample_tokens

LOGITS = torch.tensor([0.3, -1.2, 2.0, 0.0, -0.5])
LAST_UNIFORM = 1.0 - 2.0**-53


def draw(logits, uniforms, temperature=1.0):
    rows = torch.as_tensor(logits).expand(len(uniforms), -1)
    return sample_tokens(
        rows, temperatures=np.full(len(uniforms), temperature), uniforms=np.asarray(uniforms)
    )


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_evenly_spread_draws_hit_every_token_at_its_softmax_share(temperature):
    num_draws = 10_000
    ids, logprobs = draw(LOGITS, (np.arange(num_draws) + 0.5) / num_draws, temperature)

    expected = (LOGITS / temperature).softmax(0)
    counts = np.bincount(ids.numpy(), minlength=5)
    assert np.abs(counts - num_draws * expected.numpy()).max() <= 1.0
    torch.testing.assert_close(logprobs, expected.log()[ids])


def test_the_support_is_not_truncated_so_that_ratios_need_no_kept_mass():
    law = torch.tensor([0.6, 0.3, 0.08, 0.02])  # A top-p of 0.9 would keep the first two.
    ids, logprobs = draw(law.log(), (np.arange(100) + 0.5) / 100)
    assert np.bincount(ids.numpy()).tolist() == [60, 30, 8, 2]
    # Of the whole law, not of what a truncation keeps: log 0.6 and not log (0.6 / 0.9).
    torch.testing.assert_close(logprobs, law.log()[ids])


def test_random_draws_pass_a_chi_square_test():
    num_draws = 20_000
    ids, _ = draw(LOGITS, np.random.default_rng(0).random(num_draws))

    expected = num_draws * LOGITS.softmax(0).numpy()
    chi_square = ((np.bincount(ids.numpy(), minlength=5) - expected) ** 2 / expected).sum()
    assert chi_square < 18.5  # 99.9 % quantile of 4 degrees of freedom


@pytest.mark.parametrize("uniform", [0.0, 2.0**-53, 0.5, LAST_UNIFORM])
def test_a_token_of_probability_zero_is_never_drawn(uniform):
    logits = torch.full((50,), -torch.inf)
    logits[20], logits[21], logits[22] = 0.0, -torch.inf, 1.0
    ids, logprobs = draw(logits, [uniform])

    assert ids.item() in {20, 22}
    assert torch.isfinite(logprobs).all()


def test_the_extreme_draws_give_the_first_and_the_last_possible_token():
    logits = torch.tensor([-torch.inf, 0.0, 0.0, 0.0, -200.0])
    ids, _ = draw(logits, [0.0, LAST_UNIFORM])

    assert ids.tolist() == [1, 3]


def test_rounding_in_a_large_vocabulary_keeps_the_last_draw_inside():
    logits = torch.randn(49_152, generator=torch.Generator().manual_seed(0))
    ids, logprobs = draw(logits, [LAST_UNIFORM])

    assert ids.item() == 49_151
    torch.testing.assert_close(logprobs, logits.log_softmax(0)[ids])


def test_rows_at_temperature_zero_take_the_most_likely_token_and_its_plain_logprob():
    ids, logprobs = sample_tokens(
        torch.stack([LOGITS, LOGITS]),
        temperatures=np.array([0.0, 2.0]),
        uniforms=np.array([0.0, 0.0]),
    )

    assert ids.tolist() == [2, 0]
    torch.testing.assert_close(
        logprobs, torch.stack([LOGITS.log_softmax(0)[2], (LOGITS / 2).log_softmax(0)[0]])
    )


def test_bfloat16_logits_are_normalised_in_float32():
    logits = torch.randn(1000, generator=torch.Generator().manual_seed(0)).bfloat16()
    _, logprobs = draw(logits, [0.3])
    ids, _ = draw(logits.float(), [0.3])

    torch.testing.assert_close(logprobs, logits.float().log_softmax(0)[ids])
