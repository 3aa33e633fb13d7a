"""Games on tensors against the general batch, on NumPy and on torch."""

from typing import Any

import numpy as np
import pytest
import torch
from earl_envs import make_batch
from earl_envs.kernels.tensor import TensorBatch
from hypothesis import given, settings
from hypothesis import strategies as st

IDS = ["earl/TicTacToe-v0", "earl/ConnectFour-v0"]
NAMES = (
    "seats",
    "done",
    "returns",
    "num_moves",
    "episodes",
    "legal_mask",
    "observations",
    "final_observations",
)
NAMESPACES = [
    pytest.param(np, None, id="numpy"),
    pytest.param(torch, "cpu", id="torch"),
    pytest.param(torch, "cuda", id="cuda", marks=pytest.mark.gpu),
]


def _need(device: str | None) -> None:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")


def _host(tensor: Any) -> np.ndarray:
    return tensor.cpu().numpy() if isinstance(tensor, torch.Tensor) else tensor


@pytest.mark.parametrize(("xp", "device"), NAMESPACES)
@pytest.mark.parametrize("game_id", IDS)
@pytest.mark.parametrize("autoreset", [False, True])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 2**40), batch_size=st.integers(1, 6))
def test_agrees_with_the_general_batch(xp, device, game_id, autoreset, seed, batch_size):
    _need(device)
    kwargs = {"batch_size": batch_size, "seed": seed, "autoreset": autoreset}
    tensors = TensorBatch(game_id, xp=xp, device=device, **kwargs)
    plain = make_batch(game_id, backend="generic", **kwargs)
    rng = np.random.default_rng(seed)
    for step in range(40):
        running = plain.seats >= 0
        chosen = running & (rng.random(batch_size) < 0.8)
        actions = tensors.random_actions()
        expected = plain.random_actions()
        assert _host(actions)[running].tolist() == expected.tolist()
        tensors.step(actions, xp.asarray(chosen, device=device) if step % 3 else None)
        stepped = np.flatnonzero(chosen if step % 3 else running)
        plain.step(_host(actions)[stepped], stepped)
        assert not _host(tensors.illegal).any()
        if step % 7 == 6:
            slots = rng.random(batch_size) < 0.3
            tensors.restart(xp.asarray(slots, device=device))
            plain.restart(np.flatnonzero(slots))
        for name in NAMES:
            expected = getattr(plain, name)
            np.testing.assert_array_equal(_host(getattr(tensors, name)), expected, err_msg=name)


@pytest.mark.parametrize(("xp", "device"), NAMESPACES)
def test_illegal_moves_are_marked_and_not_made(xp, device):
    _need(device)
    batch = TensorBatch("earl/ConnectFour-v0", batch_size=5, seed=0, xp=xp, device=device)
    for _ in range(6):
        batch.step(xp.asarray([0, 1, 1, 0, 0], device=device))
    before = _host(batch.observations).copy()
    batch.step(
        xp.asarray([0, 7, -1, 0, 3], device=device),
        xp.asarray([True, True, True, False, True], device=device),
    )
    assert _host(batch.illegal).tolist() == [True, True, True, False, False]
    assert _host(batch.num_moves).tolist() == [6, 6, 6, 6, 7]
    np.testing.assert_array_equal(_host(batch.observations)[:4], before[:4])


@pytest.mark.parametrize(("xp", "device"), NAMESPACES)
def test_move_in_a_finished_game_is_illegal(xp, device):
    _need(device)
    batch = TensorBatch("earl/TicTacToe-v0", batch_size=2, seed=0, xp=xp, device=device)
    only_first = xp.asarray([True, False], device=device)
    for action in (0, 3, 1, 4, 2):
        batch.step(xp.asarray([action, action], device=device), only_first)
    assert _host(batch.returns).tolist() == [[1, -1], [0, 0]]
    batch.step(xp.asarray([5, 5], device=device), xp.asarray([True, True], device=device))
    assert _host(batch.illegal).tolist() == [True, False]
    assert _host(batch.returns).tolist() == [[1, -1], [0, 0]]
    assert _host(batch.num_moves).tolist() == [5, 1]


def test_buffers_stay_where_they_are():
    batch = TensorBatch("earl/TicTacToe-v0", batch_size=3, seed=0, xp=torch, autoreset=True)
    addresses = {name: getattr(batch, name).data_ptr() for name in NAMES}
    for _ in range(12):
        batch.step(batch.random_actions())
    assert {name: getattr(batch, name).data_ptr() for name in NAMES} == addresses


def test_game_without_a_tensor_kernel_is_refused():
    with pytest.raises(ValueError, match=r"tensor games are .*, got 'earl/Othello-v0'"):
        TensorBatch("earl/Othello-v0", batch_size=1, seed=0, xp=np)


@pytest.mark.gpu
def test_step_never_waits_for_the_device():
    _need("cuda")
    batch = TensorBatch(
        "earl/ConnectFour-v0", batch_size=64, seed=0, xp=torch, device="cuda", autoreset=True
    )
    batch.step(batch.random_actions())
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(10):
            batch.step(batch.random_actions())
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert int(batch.episodes.sum()) >= 0
