import json
from pathlib import Path

import pytest
import torch
from earl_trainer.algorithms.value_loss import ValueInputs, clipped_value_loss

# value, old value, return -> loss with a clip of 0.2, its gradient, clipped
CASES = [
    # Moved 0.5 towards the return: 0.2 of it counts, which leaves the larger error.
    (0.5, 0.0, 1.0, 0.8**2 / 2, 0.0, True),
    # Moved away from it: the error itself is the larger one.
    (-0.5, 0.0, 1.0, 1.5**2 / 2, -1.5, False),
    (0.1, 0.0, 1.0, 0.9**2 / 2, -0.9, False),
    # Went past it: clipped it would be short of it by less.
    (1.5, 0.9, 1.0, 0.5**2 / 2, 0.5, False),
]


def test_the_clipped_error_and_its_gradient_equal_the_table():
    values, old, returns, losses, gradients, clipped = zip(*CASES, strict=True)
    inputs = ValueInputs(
        values=torch.tensor(values, requires_grad=True),
        old_values=torch.tensor(old),
        returns=torch.tensor(returns),
    )
    loss, is_clipped = clipped_value_loss(inputs, clip=0.2)
    loss.sum().backward()
    assert loss.tolist() == pytest.approx(losses, rel=1e-5)
    assert inputs.values.grad.tolist() == pytest.approx(gradients, rel=1e-5)
    assert is_clipped.tolist() == [float(flag) for flag in clipped]


def test_the_clipped_error_is_half_of_torchrls():
    golden = json.loads((Path(__file__).parent / "golden" / "torchrl.json").read_text())
    given = {name: torch.tensor(values) for name, values in golden["inputs"].items()}
    old = given["values"][:-1]
    inputs = ValueInputs(values=old + given["log_ratios"], old_values=old, returns=given["rewards"])
    loss, is_clipped = clipped_value_loss(inputs, clip=golden["constants"]["clip"])
    assert 0 < is_clipped.sum() < len(is_clipped)
    assert (2.0 * loss).tolist() == pytest.approx(golden["outputs"]["value_loss"], abs=1e-5)


def test_without_a_clip_it_is_plain_regression():
    inputs = ValueInputs(
        values=torch.tensor([3.0]), old_values=torch.tensor([0.0]), returns=torch.tensor([1.0])
    )
    loss, is_clipped = clipped_value_loss(inputs, clip=0.0)
    assert (loss.item(), is_clipped.item()) == (2.0, 0.0)
