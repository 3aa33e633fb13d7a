"""A pipeline of rollout and training devices, played through event by event."""

from collections import Counter
from heapq import heappop, heappush
from math import inf
from typing import final

import numpy as np

from earl_trainer.planning.figures import PipelineFigures, Totals, make_figures
from earl_trainer.planning.model import PipelineModel


def simulate(model: PipelineModel, eta: float | int, num_steps: int, seed: int) -> PipelineFigures:
    """Simulate training steps; the first half of them fills the pipeline and does not count.

    Args:
        model: What runs, and how fast.
        eta: Staleness that admission allows: whole from 0 (synchronous) on, or `math.inf`.
        num_steps: Training steps, at least 2.
        seed: Fixes all lengths. The n-th group submitted has the same at every eta.

    Raises:
        ValueError: If eta or the number of steps means nothing.
    """
    if num_steps < 2:
        raise ValueError(f"num_steps must be >= 2, got {num_steps}")
    pipeline = Pipeline(model, eta, seed)
    while pipeline.version < num_steps // 2:
        pipeline.step()
    pipeline.totals = Totals()
    while pipeline.version < num_steps:
        pipeline.step()
    return make_figures(model, pipeline.totals)


@final
class Pipeline:
    """The state of a run between two events.

    Rollout devices share all sequences evenly, so that all in flight gain tokens at one pace. A
    clock that counts those tokens turns a sequence's length into the moment of its end, however
    the pace changes.
    """

    def __init__(self, model: PipelineModel, eta: float | int, seed: int) -> None:
        """Begin with nothing in flight.

        Raises:
            ValueError: If eta is neither whole from 0 on nor infinite.
        """
        if not (eta == inf or (eta >= 0 and eta == int(eta))):
            raise ValueError(f"eta must be a whole number >= 0 or inf, got {eta}")
        self.model = model
        self.version = 0
        self.submitted = 0
        self.consumed = 0
        self.totals = Totals()
        self._eta = eta
        self._admissible: float | int = (eta + 1) * model.batch_groups
        self._generator = np.random.default_rng(seed)
        self._lengths: list[list[int]] = []
        self._num_tokens: list[int] = []
        self._versions: list[int] = []
        self._begins: list[float] = []
        self._now_s = 0.0
        self._clock_tokens = 0.0
        self._prefill_s = 0.0
        self._ends: list[tuple[float, int]] = []
        self._in_flight: dict[int, int] = {}
        self._ready: list[int] = []
        self._num_ready_of_batch: Counter[int] = Counter()
        self._training_end_s = inf
        self._draining = False

    @property
    def running(self) -> int:
        """Return the groups of which at least one sequence has not ended."""
        return len(self._in_flight)

    @property
    def queued(self) -> int:
        """Return the groups that are ready and that no training step has taken."""
        return len(self._ready)

    def step(self) -> None:
        """Go to the next event: a sequence ends, or a training step does."""
        self._admit()
        self._start_training()
        token_s = self.model.token_s(len(self._ends))
        left_s = self._training_end_s - self._now_s
        end_tokens = self._ends[0][0] if self._ends else inf
        wait_s = self._prefill_s + (end_tokens - self._clock_tokens) * token_s
        if wait_s < left_s:
            self._pass(wait_s, until_tokens=end_tokens)
            self._end_sequence()
        else:
            tokens = max(0.0, left_s - self._prefill_s) / token_s
            self._pass(left_s, until_tokens=self._clock_tokens + tokens)
            self._end_training()

    def _admit(self) -> None:
        """Submit while AReaL's rule, floor((N - 1) / B) <= i + eta, and free slots allow.

        N are the groups submitted so far with the one in question, i is the version (equation 3 of
        arXiv:2505.24298).
        """
        most = -1 if self._draining else self.model.num_slots - self.model.group_size
        while self.submitted < self._admissible and len(self._ends) <= most:
            self._submit()

    def _submit(self) -> None:
        if not self._lengths:
            size = (self.model.batch_groups, self.model.group_size)
            self._lengths = self.model.lengths.draw(*size, self._generator).tolist()[::-1]
        lengths = self._lengths.pop()
        for num_tokens in lengths:
            heappush(self._ends, (self._clock_tokens + num_tokens, self.submitted))
        self._in_flight[self.submitted] = len(lengths)
        self._num_tokens.append(sum(lengths))
        self._versions.append(self.version)
        self._begins.append(self._clock_tokens)
        self.submitted += 1

    def _pass(self, seconds: float, *, until_tokens: float) -> None:
        num_sequences, totals = len(self._ends), self.totals
        num_idle = self.model.num_rollout_devices - num_sequences
        totals.elapsed_s += seconds
        totals.in_flight_s += num_sequences * seconds
        totals.generated_tokens += num_sequences * (until_tokens - self._clock_tokens)
        if num_idle > 0:
            totals.idle_device_s += num_idle * seconds
        self._now_s += seconds
        self._clock_tokens = until_tokens
        self._prefill_s = max(0.0, self._prefill_s - seconds)

    def _end_sequence(self) -> None:
        _, group = heappop(self._ends)
        self._in_flight[group] -= 1
        if not self._in_flight[group]:
            del self._in_flight[group]
            heappush(self._ready, group)
            self._num_ready_of_batch[group // self.model.batch_groups] += 1
        if self._draining and not self._ends:
            self._publish()

    def _start_training(self) -> None:
        if self._draining or self._training_end_s < inf:
            return
        size = self.model.batch_groups
        num_ready = self._num_ready_of_batch[self.version] if self.model.strict else self.queued
        if num_ready < size:
            return
        batch = [heappop(self._ready) for _ in range(size)]
        num_tokens = sum(self._num_tokens[group] for group in batch)
        seconds = num_tokens * self.model.training_s_per_token / self.model.num_training_devices
        self._training_end_s = self._now_s + seconds
        self.consumed += size
        self.totals.training_s += seconds
        self.totals.trained_tokens += num_tokens
        self.totals.staleness.update(self.version - self._versions[group] for group in batch)

    def _end_training(self) -> None:
        self._training_end_s = inf
        if self.model.interruption or not self._ends:
            self._publish()
        else:
            self._draining = True

    def _publish(self) -> None:
        seconds = self.model.publication_s
        self.totals.elapsed_s += seconds
        self.totals.in_flight_s += len(self._ends) * seconds
        self.totals.idle_device_s += self.model.num_rollout_devices * seconds
        self._now_s += seconds
        num_tokens = sum(self._clock_tokens - self._begins[group] for _, group in self._ends)
        device_tokens = num_tokens / self.model.num_rollout_devices
        self._prefill_s += device_tokens * self.model.prefill_s_per_token
        self._draining = False
        self.version += 1
        self._admissible = (self.version + self._eta + 1) * self.model.batch_groups
