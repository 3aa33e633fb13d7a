import copy
import io
import math

import pytest
import torch
from earl_trainer.learner.optimizer import MasterAdamW, learning_rate
from torch import nn

BETAS = (0.9, 0.95)


def make_net(dtype, *, seed=0):
    """A matrix and a vector, far from 0."""
    net = nn.Linear(4, 3, dtype=dtype)
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(1.0 + torch.rand(parameter.shape, generator=rng))
    return net


def set_gradients(net, seed):
    rng = torch.Generator().manual_seed(seed)
    for parameter in net.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=rng).to(parameter.dtype)


def weights(net):
    return [parameter.detach().clone() for parameter in net.parameters()]


def same(left, right):
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_bfloat16_weights_follow_updates_too_small_for_their_precision():
    net, naive = make_net(torch.bfloat16), make_net(torch.bfloat16)
    exact = make_net(torch.float32)
    with torch.no_grad():
        for parameter, start in zip(exact.parameters(), net.parameters(), strict=True):
            parameter.copy_(start)
    lost = torch.optim.AdamW(naive.parameters(), lr=1e-4, betas=BETAS, weight_decay=0.0)
    optimizers = (
        MasterAdamW(net, betas=BETAS, weight_decay=0.0),
        MasterAdamW(exact, betas=BETAS, weight_decay=0.0),
    )
    start = weights(net)
    for _ in range(300):
        for model in (net, naive, exact):
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
        lost.step()
        for optimizer in optimizers:
            optimizer.collect_gradients()
            optimizer.step(1e-4)
    # Each step is 1e-4 and the spacing between 1 and 2 is 2^-7, so alone it is rounded away.
    assert same(weights(naive), start)
    for parameter, reference, before in zip(
        net.parameters(), exact.parameters(), start, strict=True
    ):
        assert torch.equal(parameter, reference.bfloat16())
        assert (parameter < before).all()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_float32_weights_move_as_under_torchs_own_adamw_bit_for_bit(weight_decay):
    ours, theirs = make_net(torch.float32), make_net(torch.float32)
    optimizer = MasterAdamW(ours, betas=BETAS, weight_decay=weight_decay)
    reference = torch.optim.AdamW(
        # Only the matrix is decayed.
        [
            {"params": [theirs.weight], "weight_decay": weight_decay},
            {"params": [theirs.bias], "weight_decay": 0.0},
        ],
        lr=0.0,
        betas=BETAS,
    )
    start = weights(ours)
    for step in range(5):
        lr = 0.01 * (step + 1)
        set_gradients(ours, step)
        set_gradients(theirs, step)
        optimizer.collect_gradients()
        optimizer.step(lr)
        for group in reference.param_groups:
            group["lr"] = lr
        reference.step()
        assert same(weights(ours), weights(theirs))
    assert not same(weights(ours), start)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_optimizer_restored_from_its_state_continues_exactly(dtype):
    net = make_net(dtype)
    optimizer = MasterAdamW(net, betas=BETAS, weight_decay=0.1)
    for step in range(3):
        set_gradients(net, step)
        optimizer.collect_gradients()
        optimizer.step(1e-3)
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    restored_net = copy.deepcopy(net)
    restored = MasterAdamW(restored_net, betas=BETAS, weight_decay=0.1)
    restored.load_state_dict(torch.load(buffer))
    # Enough steps for a lost low half of a master weight to show in the rounded one.
    for step in range(3, 40):
        for model, owner in ((net, optimizer), (restored_net, restored)):
            set_gradients(model, step)
            owner.collect_gradients()
            owner.step(1e-3)
        assert same(weights(net), weights(restored_net))


def test_frozen_parameters_stay_and_have_no_state():
    net = make_net(torch.bfloat16)
    net.bias.requires_grad_(requires_grad=False)
    optimizer = MasterAdamW(net, betas=BETAS, weight_decay=0.0)
    bias = net.bias.clone()
    net.weight.grad = torch.ones_like(net.weight)
    optimizer.collect_gradients()
    optimizer.step(1.0)
    assert torch.equal(net.bias, bias)
    assert len(optimizer.state_dict()["masters"]) == 1


def test_clipping_scales_to_the_norm_and_reports_the_one_before():
    net = make_net(torch.float32)
    net.weight.grad = torch.full_like(net.weight, 3.0)
    net.bias.grad = torch.full_like(net.bias, 4.0)
    norm = math.sqrt(12 * 9 + 3 * 16)
    optimizer = MasterAdamW(net, betas=BETAS, weight_decay=0.0)
    optimizer.collect_gradients()
    assert optimizer.clip_gradients(100.0) == pytest.approx(norm)
    assert net.weight.grad[0, 0].item() == 3.0
    assert optimizer.clip_gradients(1.0) == pytest.approx(norm)
    assert net.weight.grad[0, 0].item() == pytest.approx(3.0 / norm, rel=1e-5)
    assert net.bias.grad[0].item() == pytest.approx(4.0 / norm, rel=1e-5)


def test_gradients_are_gone_after_a_step_and_after_being_dropped():
    net = make_net(torch.bfloat16)
    optimizer = MasterAdamW(net, betas=BETAS, weight_decay=0.0)
    set_gradients(net, 0)
    optimizer.collect_gradients()
    optimizer.step(1e-2)
    moved = weights(net)
    assert all(parameter.grad is None for parameter in net.parameters())
    set_gradients(net, 1)
    optimizer.collect_gradients()
    optimizer.drop_gradients()
    optimizer.collect_gradients()
    optimizer.step(1e-2)
    assert same(weights(net), moved)


def test_learning_rate_warms_up_in_a_line_and_then_follows_a_cosine_to_a_tenth():
    def schedule(step):
        return learning_rate(step, num_steps=12, peak=2.0, warmup_steps=4)

    # (s + 1) / 5 of the peak before it; then t = 0, 1/4, 1/2, 3/4 of the 8 steps that remain.
    assert [schedule(step) for step in range(4)] == pytest.approx([0.4, 0.8, 1.2, 1.6])
    quarter = 0.1 + 0.45 * (1 + math.sqrt(0.5))
    three_quarters = 0.1 + 0.45 * (1 - math.sqrt(0.5))
    expected = [2.0, 2.0 * quarter, 2.0 * 0.55, 2.0 * three_quarters, 0.2]
    assert [schedule(step) for step in (4, 6, 8, 10, 12)] == pytest.approx(expected)


def test_a_phase_no_longer_than_its_warm_up_never_reaches_the_peak():
    rates = [learning_rate(s, num_steps=2, peak=1.0, warmup_steps=3) for s in range(2)]
    assert rates == pytest.approx([0.25, 0.5])
    assert learning_rate(0, num_steps=1, peak=1.0, warmup_steps=0) == 1.0


def test_gradients_of_many_passes_are_summed_in_float32():
    net, exact = make_net(torch.bfloat16), make_net(torch.float32)
    optimizer = MasterAdamW(net, betas=BETAS, weight_decay=0.0)
    # The sum in bfloat16 would stop at 1: there 1 + 2^-9 is 1 again.
    for value in (1.0, *[2.0**-9] * 256):
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, value)
        optimizer.collect_gradients()
    size = sum(parameter.numel() for parameter in exact.parameters())
    assert optimizer.clip_gradients(1e9) == pytest.approx(1.5 * size**0.5)
