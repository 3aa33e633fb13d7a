"""Measure the loss over a large vocabulary: chunks of logits against all of them at once.

    python tools/bench_loss.py [--quick --out FILE]

One loss is log-probs and entropies of all tokens, weighted and added up, and the backward pass to
hidden states and head weights. Memory is the most that torch's tensors take at any moment of it,
counted at each allocation, beside hidden states and head weights, and their gradients. Time is that
of the processor, the median of some rounds, in which the variants take turns.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import process_time

import torch
from benchmarking import STORE, Figure, report
from earl_trainer.algorithms.head_logprobs import WHOLE_CHUNK, Chunk, head_logprobs
from earl_trainer.algorithms.logprobs import token_logprobs
from tensor_memory import peak_bytes
from torch import Tensor

_SEED = 0
_TEMPERATURE = 0.7
_DTYPES = (torch.float32, torch.bfloat16)

Compute = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is measured."""

    num_tokens: int
    vocabulary: int
    hidden: int
    chunk: Chunk
    num_rounds: int


FULL = Size(num_tokens=2048, vocabulary=150_000, hidden=256, chunk=WHOLE_CHUNK, num_rounds=3)
QUICK = Size(
    num_tokens=512, vocabulary=10_000, hidden=32, chunk=Chunk(tokens=256, words=4096), num_rounds=1
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """What a loss is computed from."""

    hidden: Tensor
    weight: Tensor
    targets: Tensor

    @classmethod
    def draw(cls, size: Size, dtype: torch.dtype) -> "Factors":
        """Draw factors whose logits are of about 3."""
        generator = torch.Generator().manual_seed(_SEED)
        hidden = torch.randn(size.num_tokens, size.hidden, generator=generator)
        weight = torch.randn(size.vocabulary, size.hidden, generator=generator)
        return cls(
            hidden=hidden.to(dtype),
            weight=weight.mul_(3.0 / size.hidden**0.5).to(dtype),
            targets=torch.randint(size.vocabulary, (size.num_tokens,), generator=generator),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Values and gradients of one loss."""

    logprobs: Tensor
    entropy: Tensor
    hidden_gradient: Tensor
    weight_gradient: Tensor


def chunked(chunk: Chunk) -> Compute:
    """Return what the trainer computes."""

    def compute(hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        return head_logprobs(hidden, weight, targets, temperature=_TEMPERATURE, chunk=chunk)

    return compute


def whole(hidden: Tensor, weight: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Compute the same from all logits, as for a model that makes them itself."""
    logprobs, entropy = token_logprobs(
        (hidden @ weight.T)[None],
        positions_P=torch.arange(len(targets)),
        token_ids_BT=torch.cat([targets[:1], targets])[None],
        mask_BT=torch.arange(len(targets) + 1)[None] > 0,
        temperature=_TEMPERATURE,
    )
    return logprobs[0, 1:], entropy[0, 1:]


def run_loss(factors: Factors, compute: Compute) -> Outcome:
    """Compute a loss and its gradients."""
    hidden, weight = (leaf.detach().requires_grad_() for leaf in (factors.hidden, factors.weight))
    logprobs, entropy = compute(hidden, weight, factors.targets)
    weights = torch.linspace(-1.0, 1.0, len(logprobs))
    (logprobs * weights + entropy * weights.flip(0)).sum().backward()
    assert hidden.grad is not None
    assert weight.grad is not None
    return Outcome(
        logprobs=logprobs.detach(),
        entropy=entropy.detach(),
        hidden_gradient=hidden.grad,
        weight_gradient=weight.grad,
    )


def loss_bytes(factors: Factors, compute: Compute) -> int:
    """Return the peak of a loss beside factors and gradients."""
    gradients = (factors.hidden, factors.weight)
    peak = peak_bytes(lambda: run_loss(factors, compute))
    return peak - sum(each.numel() * each.element_size() for each in gradients)


def distance(own: Tensor, expected: Tensor) -> float:
    """Return the relative distance of a gradient."""
    return float((own.double() - expected.double()).norm() / expected.double().norm())


def measure(size: Size, dtype: torch.dtype) -> list[dict[str, str | float]]:
    """Measure both variants in one precision; a row for each."""
    factors = Factors.draw(size, dtype)
    variants: Mapping[str, Compute] = {"chunks": chunked(size.chunk), "all at once": whole}
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(size.num_rounds):
        for name, compute in variants.items():
            start_s = process_time()
            run_loss(factors, compute)
            seconds[name].append(process_time() - start_s)
    exact = run_loss(factors, whole)
    chunk_bytes = size.chunk.tokens * size.chunk.words * dtype.itemsize
    rows: list[dict[str, str | float]] = []
    for name, compute in variants.items():
        outcome, num_bytes = run_loss(factors, compute), loss_bytes(factors, compute)
        rows.append({
            "dtype": str(dtype).removeprefix("torch."),
            "variant": name,
            "tokens": size.num_tokens,
            "vocabulary": size.vocabulary,
            "hidden": size.hidden,
            "bytes": num_bytes,
            "of_chunk": num_bytes / chunk_bytes,
            "seconds": median(seconds[name]),
            "logprobs_off": float((outcome.logprobs - exact.logprobs).abs().max()),
            "entropy_off": float((outcome.entropy - exact.entropy).abs().max()),
            "hidden_gradient_off": distance(outcome.hidden_gradient, exact.hidden_gradient),
            "weight_gradient_off": distance(outcome.weight_gradient, exact.weight_gradient),
        })
    return rows


def figures_of(rows: Sequence[Mapping[str, str | float]]) -> dict[str, Figure]:
    """Judge the rows."""
    figures: dict[str, Figure] = {}
    for dtype in dict.fromkeys(str(row["dtype"]) for row in rows):
        own, other = (
            {name: float(row[name]) for name in row if name not in ("dtype", "variant")}
            for variant in ("chunks", "all at once")
            for row in rows
            if row["dtype"] == dtype and row["variant"] == variant
        )
        gradients = "<= 1e-4" if dtype == "float32" else "<= 0.02"
        figures |= {
            f"{dtype}_peak": Figure(value=own["of_chunk"], unit="chunks of logits", goal="<= 1.3"),
            f"{dtype}_values_off": Figure(
                value=max(own["logprobs_off"], own["entropy_off"]), unit="nats", goal="<= 1e-4"
            ),
            f"{dtype}_gradients_off": Figure(
                value=max(own["hidden_gradient_off"], own["weight_gradient_off"]),
                unit="of the norm",
                goal=gradients,
            ),
            f"{dtype}_memory_of_all_at_once": Figure(
                value=own["bytes"] / other["bytes"], unit="", goal=""
            ),
            f"{dtype}_time_of_all_at_once": Figure(
                value=own["seconds"] / other["seconds"], unit="", goal=""
            ),
        }
    return figures


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and store."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a small vocabulary; needs --out")
    parser.add_argument("--out", type=Path, default=None, help="where to store the JSON")
    chosen = parser.parse_args(arguments)
    if chosen.quick and chosen.out is None:
        parser.error("--quick needs --out FILE: the stored file is of a full run")
    size = QUICK if chosen.quick else FULL
    rows = [row for dtype in _DTYPES for row in measure(size, dtype)]
    report(figures_of(rows), rows, target=chosen.out or STORE / "loss.json")


if __name__ == "__main__":
    main()
