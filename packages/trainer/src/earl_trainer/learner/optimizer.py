"""AdamW on float32 master weights, whatever the precision of the model."""

import math
from collections.abc import Mapping
from typing import Any, final

import torch
from torch import Tensor, nn

from earl_trainer.workers.group import Group


def learning_rate(step: int, *, num_steps: int, peak: float, warmup_steps: int) -> float:
    """Linear warm-up, then a cosine from `peak` that would reach a tenth of it after the last step.

    lr(s) = peak (0.1 + 0.9 (1 + cos(pi t)) / 2) with t the share of the remaining steps that is
    done (SGDR without restarts, Loshchilov and Hutter, arXiv:1608.03983, eq. 5).

    Args:
        step: From 0.
        num_steps: Steps of the phase.
        peak: The largest rate.
        warmup_steps: Steps to reach it.
    """
    if step < warmup_steps:
        return peak * (step + 1) / (warmup_steps + 1)
    done = (step - warmup_steps) / max(1, num_steps - warmup_steps)
    return peak * (0.1 + 0.45 * (1.0 + math.cos(math.pi * done)))


@final
class MasterAdamW:
    """AdamW (Loshchilov and Hutter, arXiv:1711.05101) that sums and updates in float32 only.

    An update of relative size 1e-3 is lost in bfloat16, whose spacing is 2^-8. So parameters in any
    precision below float32 have a float32 copy: gradients are summed there, and it is what is
    updated and then rounded into them. A float32 parameter is its own copy. Only matrices are
    decayed.

    Lifecycle: per update `collect_gradients` after every backward pass, `add_up_gradients`,
    `clip_gradients`, then `step`, or `drop_gradients` to give the update up.
    """

    def __init__(
        self, model: nn.Module, *, betas: tuple[float, float], weight_decay: float
    ) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._masters = [
            p if p.dtype == torch.float32 else nn.Parameter(p.detach().float())
            for p in self._parameters
        ]
        self._adamw = torch.optim.AdamW(
            [
                {"params": [m for m in self._masters if m.ndim >= 2], "weight_decay": weight_decay},
                {"params": [m for m in self._masters if m.ndim < 2], "weight_decay": 0.0},
            ],
            lr=0.0,
            betas=betas,
        )

    def collect_gradients(self) -> None:
        """Add the gradients of one backward pass to the float32 sums."""
        for parameter, master in zip(self._parameters, self._masters, strict=True):
            if master is parameter or parameter.grad is None:
                continue
            if master.grad is None:
                master.grad = parameter.grad.float()
            else:
                master.grad += parameter.grad
            parameter.grad = None

    def add_up_gradients(self, workers: Group) -> None:
        """Replace the collected gradients by their sums over the workers; one alone has them."""
        if workers.size == 1:
            return
        for master in self._masters:
            if master.grad is None:  # This worker had no row.
                master.grad = torch.zeros_like(master)
            workers.add_up(master.grad)

    def clip_gradients(self, max_norm: float) -> float:
        """Scale the collected gradients to a global norm of at most `max_norm`.

        Returns:
            The norm before.
        """
        return float(nn.utils.clip_grad_norm_(self._masters, max_norm))

    def step(self, lr: float) -> None:
        """Apply the collected gradients and forget them."""
        for group in self._adamw.param_groups:
            group["lr"] = lr
        self._adamw.step()
        with torch.no_grad():
            for parameter, master in zip(self._parameters, self._masters, strict=True):
                if master is not parameter:
                    parameter.copy_(master)
        self.drop_gradients()

    def drop_gradients(self) -> None:
        """Forget the gradients without applying them."""
        for held in (*self._parameters, *self._masters):
            held.grad = None

    def state_dict(self) -> dict[str, Any]:  # Any: torch's own state dictionary
        """Return master weights and moments, to continue exactly."""
        return {
            "adamw": self._adamw.state_dict(),
            "masters": [
                None if master is parameter else master.detach()
                for parameter, master in zip(self._parameters, self._masters, strict=True)
            ],
        }

    def load_state_dict(
        self, state: Mapping[str, Any]
    ) -> None:  # Any: torch's own state dictionary
        """Take over what `state_dict` returned; the model's weights are loaded by their owner."""
        self._adamw.load_state_dict(state["adamw"])
        saved: list[Tensor | None] = state["masters"]
        with torch.no_grad():
            for master, value in zip(self._masters, saved, strict=True):
                if value is not None:
                    master.copy_(value)
