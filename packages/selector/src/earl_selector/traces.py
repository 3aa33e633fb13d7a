"""Made-up histories of a rollout's load, on which policies are compared.

A trace is what a training run does to the engine: how many responses are in flight at each step
and how long their contexts are. The kinds are those that matter to a choice of degree: contexts
that grow, contexts that shrink, and sudden spells of long (or short) contexts. Every trace crosses
the given number of resident tokens, at which another degree becomes the best.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Final, final

from earl_selector.report import ContextReport

TRACE_SEEDS: Final = range(200)
"""The seeds of the traces on which policies are judged; the three kinds take turns."""

_MIN_CONTEXT_TOKENS: Final = 64


class TraceKind(StrEnum):
    """How the contexts of a trace move."""

    GROWING = "growing"
    SHRINKING = "shrinking"
    SPIKY = "spiky"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What the rollout of one step asks of each engine."""

    step: int
    num_responses: int
    """Responses in flight together."""
    context_tokens: int
    """Length that each of them reaches."""

    @property
    def resident_tokens(self) -> int:
        """Return the tokens whose keys and values are held if nothing queues."""
        return self.num_responses * self.context_tokens

    def to_report(self) -> ContextReport:
        """Return what a policy is told of this rollout afterwards."""
        return ContextReport(
            step=self.step,
            num_responses=self.num_responses,
            mean_context_tokens=float(self.context_tokens),
            max_context_tokens=self.context_tokens,
            resident_tokens=self.resident_tokens,
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The loads of a run, one a step."""

    kind: TraceKind
    seed: int
    loads: tuple[Load, ...]


def make_trace(seed: int, *, crossover_tokens: int, max_context_tokens: int) -> Trace:
    """Make one trace of 60 to 200 steps that crosses `crossover_tokens`.

    Contexts move between a low load (1/8 to 1/2 of the crossover) and a high one (2 to 4 times the
    crossover); lengths jitter by 2 to 10 % from step to step; in half of the traces the number of
    responses doubles or halves for a while, as it does with asynchronous rollouts.

    Args:
        seed: Fixes everything, the kind included.
        crossover_tokens: Resident tokens at which the best degree changes.
        max_context_tokens: No context is longer.
    """
    rng = Random(seed)
    kind = tuple(TraceKind)[seed % len(TraceKind)]
    while True:
        loads = _draw_loads(rng, kind, crossover_tokens, max_context_tokens)
        residents = [load.resident_tokens for load in loads]
        if min(residents) < 0.8 * crossover_tokens and max(residents) > 1.25 * crossover_tokens:
            return Trace(kind=kind, seed=seed, loads=loads)


def _draw_loads(
    rng: Random, kind: TraceKind, crossover_tokens: int, max_context_tokens: int
) -> tuple[Load, ...]:
    num_steps = rng.randint(60, 200)
    low_tokens = crossover_tokens * 2.0 ** -rng.uniform(1.0, 3.0)
    high_tokens = crossover_tokens * 2.0 ** rng.uniform(1.0, 2.0)
    least_responses = -(-int(high_tokens) // max_context_tokens)
    num_responses = least_responses * 2 ** rng.randint(0, 2)
    jitter = rng.uniform(0.02, 0.10)
    heights = _SHAPES[kind](rng, num_steps)
    responses = _draw_responses(rng, num_steps, num_responses)
    loads: list[Load] = []
    for step, (height, in_flight) in enumerate(zip(heights, responses, strict=True)):
        resident_tokens = low_tokens * (high_tokens / low_tokens) ** height
        context_tokens = int(resident_tokens / num_responses * rng.lognormvariate(0.0, jitter))
        clipped_tokens = min(max(context_tokens, _MIN_CONTEXT_TOKENS), max_context_tokens)
        loads.append(Load(step=step, num_responses=in_flight, context_tokens=clipped_tokens))
    return tuple(loads)


def _ramp(rng: Random, num_steps: int) -> list[float]:
    start, end = rng.uniform(0.0, 0.4) * num_steps, rng.uniform(0.6, 1.0) * num_steps
    return [min(1.0, max(0.0, (step - start) / (end - start))) for step in range(num_steps)]


def _fall(rng: Random, num_steps: int) -> list[float]:
    return [1.0 - height for height in _ramp(rng, num_steps)]


def _spikes(rng: Random, num_steps: int) -> list[float]:
    rest = 0.0 if rng.random() < 2 / 3 else 1.0
    heights: list[float] = []
    while len(heights) < num_steps:
        heights += [rest] * rng.randint(5, 25) + [1.0 - rest] * rng.randint(1, 12)
    return heights[:num_steps]


_SHAPES: Final[dict[TraceKind, Callable[[Random, int], list[float]]]] = {
    TraceKind.GROWING: _ramp,
    TraceKind.SHRINKING: _fall,
    TraceKind.SPIKY: _spikes,
}


def _draw_responses(rng: Random, num_steps: int, num_responses: int) -> list[int]:
    responses = [num_responses] * num_steps
    if rng.random() < 0.5:
        for _ in range(rng.randint(1, 3)):
            start = rng.randrange(num_steps)
            end = start + rng.randint(num_steps // 10, num_steps // 3)
            changed = max(1, rng.choice((num_responses * 2, num_responses // 2)))
            responses[start:end] = [changed] * len(responses[start:end])
    return responses
