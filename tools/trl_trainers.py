"""Trainers of trl made for one of their methods, with a model that answers what it was given."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

TESTS = Path(__file__).parents[1] / "tests" / "trainer"
SEED = 7
_BESIDES = ("torch", "transformers", "accelerate")

Inputs = Mapping[str, list[Any]]
Outputs = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenModel:
    """Answers every batch alike; where a trainer only reports something, with zeros."""

    log_probs: Tensor
    """[rows, tokens] of the tokens asked about, with gradient if they are being trained."""
    entropy: Tensor
    """[rows, tokens]"""
    training: bool = True
    is_gradient_checkpointing: bool = False

    def __call__(self, **_: Any) -> Any:  # noqa: ANN401 - whatever trl asks, in its own words
        """Return what the fused head of trl would."""
        zeros = torch.zeros_like(self.log_probs.detach())
        return SimpleNamespace(
            log_probs=self.log_probs, entropy=self.entropy, mean_logits=zeros, is_top1=zeros.bool()
        )


def make_trainer(module: str, name: str, **attributes: Any) -> Any:  # noqa: ANN401 - of trl
    """Return a trainer that has nothing but what its method reads.

    Args:
        module: Where it is in trl.
        name: Of the class.
        attributes: Besides those that have to do with neither a loss nor an advantage.
    """
    trainer = object.__new__(getattr(import_module(module), name))
    reported = defaultdict[str, defaultdict[str, list[float]]](lambda: defaultdict(list))
    common = {
        "accelerator": import_module("accelerate").Accelerator(cpu=True),
        "aux_loss_enabled": False,
        "state": SimpleNamespace(global_step=0),
        "_metrics": reported,
        "_total_train_tokens": 0,
        "_tp_size": 1,
    }
    vars(trainer).update(common | attributes)
    return trainer


def make_arguments(**values: Any) -> Any:  # noqa: ANN401 - stands for one of trl's own
    """Return the arguments of a trainer that makes one update of a whole batch."""
    return SimpleNamespace(
        report_to=[],
        gradient_checkpointing_kwargs=None,
        gradient_accumulation_steps=1,
        steps_per_generation=1,
        **values,
    )


def always(answer: Any) -> Callable[..., Any]:  # noqa: ANN401 - whatever trl expects there
    """Return a method that answers alike whatever it is asked."""

    def method(*_: Any, **__: Any) -> Any:  # noqa: ANN401
        return answer

    return method


def pad_rows(values: Tensor, lengths: Sequence[int]) -> Tensor:
    """Return [rows, tokens], padded with 0 at the end, of the rows one after the other."""
    return pad_sequence(list(values.split(list(lengths))), batch_first=True)


def write_golden(
    path: Path, *, constants: Mapping[str, float], inputs: Inputs, outputs: Outputs
) -> None:
    """Write inputs and what trl made of them, with the versions that it took."""
    path.parent.mkdir(parents=True, exist_ok=True)
    besides = ", ".join(f"{name} {version(name)}" for name in _BESIDES)
    golden = {
        "library": f"trl {version('trl')} ({besides})",
        "constants": dict(constants),
        "inputs": dict(inputs),
        "outputs": outputs,
    }
    path.write_text(json.dumps(golden, indent=1) + "\n")
