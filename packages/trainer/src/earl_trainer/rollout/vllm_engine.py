"""The engine `vllm`: generates in vLLM's processes, at a tensor-parallel degree that changes."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import final

import torch
from earl_selector import MemoryModel
from transformers import PreTrainedModel

from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.rollout.drift import Drift, choose_probe, compare_logprobs
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.switch import Switch
from earl_trainer.rollout.vllm_configuration import VllmConfiguration
from earl_trainer.rollout.vllm_library import can_sleep
from earl_trainer.rollout.vllm_pool import ConfigurationPool, SwitchMemory
from earl_trainer.rollout.vllm_settings import VllmSettings, VllmTimeouts
from earl_trainer.rollout.weights_folder import WeightsFolder
from earl_trainer.types import RunFailedError


@final
class VllmEngine:
    """A pool of vLLM configurations, one per degree, that follow the learner's weights.

    vLLM schedules and preempts by itself, so requests beyond the capacity wait in it. Conversations
    are found again by their prefix (`enable_prefix_caching`); `load_weights` forgets them.

    Lifecycle: made with the first degree; the first `load_weights` starts vLLM, `close` ends it.

    Args:
        model: The learner's, in this process; its weights reach vLLM as files.
        stop_ids: Tokens that end a reply.
        memory: Of one rank; what the weights leave of it is the cache.
        tp: The first degree.
        max_context_tokens: Longest context; where the cache of a degree holds less, that counts.
        max_token_error: Largest `Drift.token_mult_prob_error` that is not remarked on.
        timeouts: For every wait.

    Raises:
        ValueError: If vLLM is not installed, or `memory` counts keys and values of another size
            than the model's.

    Example:
        >>> engine = VllmEngine(model, stop_ids=frozenset({4}), memory=memory,
        ...                     max_context_tokens=4096)
        >>> engine.load_weights(0)
        >>> switch = engine.resize(2)
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        stop_ids: frozenset[int],
        memory: MemoryModel,
        max_context_tokens: int,
        tp: int = 1,
        max_token_error: float | int = 1.05,
        timeouts: VllmTimeouts = VllmTimeouts(),  # noqa: B008 - frozen
    ) -> None:
        memory.check_degree(tp)
        settings = VllmSettings(
            memory=memory,
            stop_ids=stop_ids,
            max_context_tokens=max_context_tokens,
            num_threads=torch.get_num_threads(),
            dtype=model.dtype,
            timeouts=timeouts,
        )
        keeps = can_sleep()
        self._memory = memory
        self._tp = tp
        self._max_token_error = max_token_error
        self._weights = WeightsFolder(model)
        self._loop = BackgroundLoop()

        def start(tp: int, folder: Path) -> VllmConfiguration:
            return VllmConfiguration(settings, self._loop, tp=tp, folder=folder)

        self._pool = ConfigurationPool(start, keeps=keeps)
        self._version = 0
        self._interrupted = threading.Event()
        self._latest: list[list[int]] = []
        self._switch_memory: SwitchMemory | None = None

    @property
    def version(self) -> int:
        """Version of the weights now in use."""
        return self._version

    @property
    def tp(self) -> int:
        """The degree in use."""
        return self._tp

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that vLLM's cache really holds; before the start, what the model says."""
        if not self._pool.is_started:
            return self._memory.capacity_tokens(self._tp)
        return self._pool.current.size.capacity_tokens

    @property
    def pids(self) -> list[int]:
        """Of the processes in use."""
        return self._pool.current.pids

    @property
    def switch_memory(self) -> SwitchMemory | None:
        """What the last switch freed and took."""
        return self._switch_memory

    def load_weights(self, version: int) -> None:
        """Take over the learner's weights as `version` and forget every cache of older ones.

        Raises:
            RunFailedError: If vLLM does not start or does not answer.
            ValueError: If this degree cannot run.
        """
        folder = self._weights.write()
        if self._pool.is_started:
            self._pool.current.load(folder)
        else:
            self._pool.begin(self._tp, folder)
        self._weights.drop_older()
        self._version = version

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order.

        Raises:
            RunFailedError: If vLLM's processes are gone or do not answer.
            ValueError: If one request alone is larger than the capacity.
        """
        self._interrupted.clear()
        if not requests:
            return []
        current = self._pool.current
        limit_tokens = current.size.max_context_tokens
        for request in requests:
            peak_tokens = len(request.prompt_ids) + request.max_new_tokens
            if peak_tokens > limit_tokens:
                raise ValueError(
                    f"a context of {peak_tokens} tokens does not fit the capacity of "
                    f"{limit_tokens} tokens"
                )
        completions = current.generate(
            requests, version=self._version, interrupted=self._interrupted
        )
        self._latest = [
            [*request.prompt_ids, *completion.ids]
            for request, completion in zip(requests, completions, strict=True)
        ]
        return completions

    def interrupt(self) -> None:
        """Make a running `generate` return, each reply as far as it got."""
        self._interrupted.set()

    def resize(self, tp: int) -> Switch | None:
        """Change to degree `tp`; None if it is in use already.

        Returns:
            What became of it: the old degree stays where the new one does not start.

        Raises:
            RunFailedError: If the old one does not come back either.
            ValueError: If the model cannot be split by `tp`.
        """
        if tp == self._tp:
            return None
        self._memory.check_degree(tp)
        old_tp, start_s = self._tp, time.perf_counter()
        probe = self._fitting(choose_probe(self._latest))
        before = self._pool.current.score(probe)
        drift, problems = None, list[str]()
        try:
            self._switch_memory = self._pool.switch(tp, self._weights.latest)
            self._tp = tp
        except (RunFailedError, ValueError) as error:
            if not self._pool.is_started:
                raise
            problems.append(str(error))
        else:
            problems.append(self._switch_memory.problem)
            drift = self._drift(probe, before)
            problems.append(self._drift_problem(drift))
        return Switch(
            from_tp=old_tp,
            to_tp=tp,
            tp=self._tp,
            switch_s=time.perf_counter() - start_s,
            drift=drift,
            problem="; ".join(filter(None, problems)),
        )

    def close(self) -> None:
        """End vLLM's processes and remove the files; again is harmless."""
        self._pool.close()
        self._loop.close()
        self._weights.close()

    def _fitting(self, contexts: Sequence[list[int]]) -> list[list[int]]:
        # vLLM scores a context by generating one more token.
        limit_tokens = self._pool.current.size.max_context_tokens
        return [each for each in contexts if len(each) < limit_tokens]

    def _drift(self, probe: list[list[int]], before: list[list[float]]) -> Drift | None:
        kept = self._fitting(probe)
        after = self._pool.current.score(kept)
        return compare_logprobs([before[probe.index(context)] for context in kept], after)

    def _drift_problem(self, drift: Drift | None) -> str:
        if drift is None or drift.token_mult_prob_error <= self._max_token_error:
            return ""
        return (
            f"token_mult_prob_error {drift.token_mult_prob_error:.4f} is above "
            f"{self._max_token_error:g}"
        )
