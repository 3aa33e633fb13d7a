"""Several reward models as one, and what that is for."""

import numpy as np
import pytest
import torch
from earl_trainer.rewards.ensemble import ENSEMBLES
from hypothesis import given
from hypothesis import strategies as st

REWARDS = torch.tensor([[1.0, 2.0], [3.0, 2.0], [2.0, -1.0]])


def test_each_ensemble_is_its_formula():
    assert ENSEMBLES["mean"](REWARDS, 9.0).tolist() == [2.0, 1.0]
    assert ENSEMBLES["min"](REWARDS, 9.0).tolist() == [1.0, -1.0]
    deviations = np.array([[1.0, 2.0], [3.0, 2.0], [2.0, -1.0]]).std(axis=0)
    expected = [2.0 - 0.5 * deviations[0], 1.0 - 0.5 * deviations[1]]
    assert ENSEMBLES["mean-std"](REWARDS, 0.5).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("name", ENSEMBLES)
def test_one_model_alone_is_itself(name):
    assert torch.equal(ENSEMBLES[name](REWARDS[:1], 3.0), REWARDS[0])


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=5), st.floats(0, 3))
def test_doubt_never_raises_a_reward(values, doubt):
    rewards = torch.tensor(values)[:, None]
    plain = ENSEMBLES["mean"](rewards, doubt)
    for name in ("min", "mean-std"):
        assert ENSEMBLES[name](rewards, doubt) <= plain + 1e-3


DIM, NUM_PAIRS, NUM_STEPS = 24, 40, 60


def gold(actions):
    """What is really wanted: close to a direction, and not far out."""
    return actions @ TRUTH - 0.15 * actions.square().sum(dim=-1)


TRUTH = torch.ones(DIM) / DIM**0.5


def learn_proxy(seed):
    """Fit Bradley-Terry rewards, linear and quadratic, to few noisy pairs near the start."""
    rng = torch.Generator().manual_seed(seed)
    sides = 0.7 * torch.randn(2, NUM_PAIRS, DIM, generator=rng)
    better = torch.rand(NUM_PAIRS, generator=rng) < torch.sigmoid(
        4 * (gold(sides[0]) - gold(sides[1]))
    )
    chosen, rejected = (torch.where(better[:, None], sides[i], sides[1 - i]) for i in (0, 1))
    weights = torch.zeros(DIM)
    for _ in range(200):
        ahead = (chosen - rejected) @ weights
        slope = torch.sigmoid(-ahead)[:, None] * (chosen - rejected)
        weights += 0.5 * (slope.mean(dim=0) - 0.02 * weights)
    return weights


def reinforce(proxies, ensemble, doubt):
    """Follow REINFORCE's expected gradient of a Gaussian policy's mean, by numbers drawn once."""
    rng = torch.Generator().manual_seed(99)
    mean, noise = torch.zeros(DIM), torch.randn(256, DIM, generator=rng)
    golds, values = [], []
    for _ in range(NUM_STEPS):
        actions = mean + 0.5 * noise
        rewards = ENSEMBLES[ensemble](proxies @ actions.T, doubt)
        advantages = rewards - rewards.mean()
        mean = mean + 0.1 * (advantages[:, None] * noise).mean(dim=0) / advantages.std().clamp(
            min=0.05
        )
        golds.append(gold(mean).item())
        values.append(ENSEMBLES[ensemble]((proxies @ mean)[:, None], doubt).item())
    return golds, values


def test_a_single_proxy_is_over_optimised_and_an_ensemble_less():
    """Gao et al., arXiv:2210.10760: the proxy goes on rising while what is wanted falls."""
    single, guarded = [], []
    for seed in range(5):
        proxies = torch.stack([learn_proxy(100 * seed + member) for member in range(5)])
        golds, values = reinforce(proxies[:1], "mean", 0.0)
        assert values[-1] > max(values[:-1]) - 1e-6
        assert golds[-1] < max(golds) - 0.2
        single.append(golds[-1])
        guarded.append({
            name: reinforce(proxies, name, 1.0)[0][-1] for name in ("mean", "min", "mean-std")
        })
    for name in ("mean", "min", "mean-std"):
        gains = [each[name] - alone for each, alone in zip(guarded, single, strict=True)]
        assert min(gains) > 0.0, (name, gains)
