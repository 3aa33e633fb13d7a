"""Timing an engine: how fast it decodes under one load, and what a change of degree takes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from statistics import fmean, median
from typing import Final, final

import numpy as np
import torch

from earl_trainer.rollout.engine import Engine, Request

# One token from reading the prompt, one from a step of decoding like those that will be timed.
_WARM_TOKENS: Final = 2
# So flat that every token is about equally likely: an end of turn as seldom as can be, whatever
# the weights have learned.
_TEMPERATURE: Final = 100.0
_NUM_PASSES: Final = 3


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """Times an engine on random conversations.

    Example:
        >>> meter = Meter(engine=engine, vocab_size=100, stop_ids=frozenset({2}), num_new_tokens=4)
        >>> engine.resize(2)
        >>> meter.tokens_per_s(num_responses=64, context_tokens=512)
    """

    engine: Engine
    vocab_size: int
    stop_ids: frozenset[int]
    """Tokens that end a reply; they do not occur in prompts."""
    num_new_tokens: int
    """Tokens of one reply. Beyond the capacity an engine may read a context again for each reply,
    so that its speed depends on how long they are."""
    shared_prompt: bool = True
    """Whether all conversations begin alike, which is quickly read by an engine that reads equal
    prompts once. Not for one whose conversations then share a cache: they never do in a run."""
    seed: int = 0
    clock: Callable[[], float] = time.perf_counter

    def tokens_per_s(
        self, *, num_responses: int, context_tokens: int, deadline_s: float = inf
    ) -> float:
        """Return the tokens that the engine generates per second at its present degree.

        Prompts are read, and one step decoded, before the clock starts; then the same
        conversations go on, so that an engine that keeps their cache only decodes. The last of the
        timed replies ends at `context_tokens`.

        Args:
            num_responses: Conversations at once.
            context_tokens: At least `grid.MIN_CONTEXT_TOKENS`.
            deadline_s: Of the clock; past it, one timed reply has to do.

        Returns:
            The median over the timed replies; 0.0 where the engine cannot run the load.
        """
        most_tokens = (context_tokens - _WARM_TOKENS - 1) // _NUM_PASSES
        num_new_tokens = min(self.num_new_tokens, most_tokens)
        num_prompt_tokens = context_tokens - _WARM_TOKENS - _NUM_PASSES * num_new_tokens
        rng = np.random.default_rng(self.seed)
        num_prompts = 1 if self.shared_prompt else num_responses
        prompts = [self._draw_prompt(rng, num_prompt_tokens) for _ in range(num_prompts)]
        contexts = prompts * (num_responses // num_prompts)
        rates: list[float] = []
        try:
            contexts, _ = self._extend(contexts, _WARM_TOKENS, rng)
            while len(rates) < _NUM_PASSES and not (rates and self.clock() >= deadline_s):
                contexts, rate = self._extend(contexts, num_new_tokens, rng)
                rates.append(rate)
        except (ValueError, torch.OutOfMemoryError):
            # An engine refuses what is larger than its capacity with a ValueError.
            return 0.0
        return median(rates)

    def switch_s(self, degrees: Sequence[int]) -> float | None:
        """Return what a change of degree takes, on average over the way up all degrees and back.

        None where the engine does not change to one of them: what a refusal takes is no figure.

        Args:
            degrees: At least two, ascending. The engine has been at each of them before.
        """
        self.engine.resize(degrees[0])
        self._generate_one()
        times_s: list[float] = []
        for tp in (*degrees[1:], *degrees[-2::-1]):
            took_s = self._time_resize(tp)
            if took_s is None:
                return None
            times_s.append(took_s)
        return fmean(times_s)

    def _time_resize(self, tp: int) -> float | None:
        """Time a change of degree; an engine may put the work off until it generates."""
        start_s = self.clock()
        switch = self.engine.resize(tp)
        if switch is None or not switch.done:
            return None
        self._generate_one()
        ready_s = self.clock()
        self._generate_one()
        return max(0.0, (ready_s - start_s) - (self.clock() - ready_s))

    def _generate_one(self) -> None:
        rng = np.random.default_rng(self.seed)
        self._extend([self._draw_prompt(rng, 1)], 1, rng)

    def _extend(
        self, contexts: Sequence[Sequence[int]], num_new_tokens: int, rng: np.random.Generator
    ) -> tuple[list[list[int]], float]:
        """Generate a reply to every context; return the longer contexts and tokens per second."""
        seeds = rng.integers(2**63, size=len(contexts)).tolist()
        requests = [
            Request(
                sequence_id=index,
                prompt_ids=context,
                max_new_tokens=num_new_tokens,
                temperature=_TEMPERATURE,
                seed=seed,
            )
            for index, (context, seed) in enumerate(zip(contexts, seeds, strict=True))
        ]
        start_s = self.clock()
        completions = self.engine.generate(requests)
        took_s = self.clock() - start_s
        # An end of turn has not been read by the engine yet: another token may stand in its place.
        (ordinary,) = self._draw_prompt(rng, 1)
        longer = [
            [*context, *(ordinary if token in self.stop_ids else token for token in each.ids)]
            for context, each in zip(contexts, completions, strict=True)
        ]
        return longer, sum(len(each.ids) for each in completions) / took_s

    def _draw_prompt(self, rng: np.random.Generator, num_tokens: int) -> list[int]:
        ordinary = np.setdiff1d(np.arange(self.vocab_size), list(self.stop_ids))
        return rng.choice(ordinary, size=num_tokens).tolist()
