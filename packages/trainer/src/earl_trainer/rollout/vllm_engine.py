"""The engine `vllm`: generates in vLLM's processes, at a tensor-parallel degree that changes."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, final

import torch
from earl_selector import MemoryModel
from transformers import PreTrainedModel

from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.rollout.capacity_error import CapacityError
from earl_trainer.rollout.drift import Drift, compare_logprobs
from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.rollout.probe import choose_probe, score_probe
from earl_trainer.rollout.switch import Switch, SwitchRules
from earl_trainer.rollout.vllm_configuration import LostVllmError, VllmConfiguration
from earl_trainer.rollout.vllm_library import can_sleep
from earl_trainer.rollout.vllm_pool import ConfigurationPool, SwitchMemory
from earl_trainer.rollout.vllm_settings import VllmSettings, VllmTimeouts
from earl_trainer.rollout.weights_folder import WeightsFolder
from earl_trainer.types import RunFailedError

T = TypeVar("T")


@final
class VllmEngine:
    """A pool of vLLM configurations, one per degree, that follow the learner's weights.

    vLLM schedules and preempts by itself, so requests beyond the capacity wait in it. Conversations
    are found again by their prefix (`enable_prefix_caching`); `load_weights` forgets them. New
    weights are read by the configuration that is next asked for something, so that a switch that
    comes before reads them once. Lost processes are started anew, and what they were doing is done
    again.

    Lifecycle: made with the first degree; the first `load_weights` starts vLLM, `close` ends it.

    Args:
        model: The learner's, in this process; its weights reach vLLM as files.
        stop_ids: Tokens that end a reply.
        memory: Of one rank; what the weights leave of it is the cache.
        tp: The first degree.
        max_context_tokens: Longest context; where the cache of a degree holds less, that counts.
        rules: For what goes wrong; `on_drift` is always `flag`.
        note: Is told in one line what happened to vLLM's processes.

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
        rules: SwitchRules = SwitchRules(),  # noqa: B008 - frozen
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        memory.check_degree(tp)
        settings = VllmSettings(
            memory=memory,
            stop_ids=stop_ids,
            max_context_tokens=max_context_tokens,
            num_threads=torch.get_num_threads(),
            dtype=model.dtype,
            timeouts=VllmTimeouts(generate_s=rules.generate_timeout_s, call_s=rules.timeout_s),
        )
        keeps = can_sleep()
        self._model = model
        self._memory = memory
        self._tp = tp
        self._rules = rules
        self._note = note
        self._num_restarts = 0
        self._weights = WeightsFolder(model)
        self._loop = BackgroundLoop()

        def start(tp: int, folder: Path) -> VllmConfiguration:
            return VllmConfiguration(settings, self._loop, tp=tp, folder=folder)

        self._pool = ConfigurationPool(start, keeps=keeps)
        self._version = 0
        self._is_behind = False
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

        vLLM reads them when it is next asked for something.

        Raises:
            RunFailedError: If vLLM does not start.
            ValueError: If this degree cannot run.
        """
        folder = self._weights.write()
        if not self._pool.is_started:
            self._pool.begin(self._tp, folder)
        else:
            self._is_behind = True
        self._weights.drop_older()
        self._version = version

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order.

        Raises:
            RunFailedError: If vLLM is lost once more than is allowed.
            CapacityError: If one request alone is larger than the capacity.
        """
        self._interrupted.clear()
        if not requests:
            return []
        limit_tokens = self._pool.current.size.max_context_tokens
        for request in requests:
            peak_tokens = len(request.prompt_ids) + request.max_new_tokens
            if peak_tokens > limit_tokens:
                raise CapacityError(
                    f"a context of {peak_tokens} tokens does not fit the capacity of "
                    f"{limit_tokens} tokens of vLLM at tp {self._tp}"
                )
        completions = self._recovering(
            lambda: self._pool.current.generate(
                requests, version=self._version, interrupted=self._interrupted
            )
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
        """Change to degree `tp`; None if it is in use already. New weights are read either way.

        Returns:
            What became of it: the old degree stays where the new one does not start.

        Raises:
            RunFailedError: If the old one does not come back either, nor by a new start.
            ValueError: If the model cannot be split by `tp`.
        """
        if tp == self._tp:
            self._recovering(lambda: None)
            return None
        self._memory.check_degree(tp)
        old_tp, start_s = self._tp, time.perf_counter()
        probe = self._fitting(choose_probe(self._latest))
        with_weights = self._is_behind
        before = score_probe(self._model, probe) if with_weights else self._score(probe)
        drift, problems = None, list[str]()
        # Whichever degree comes out of it starts, or wakes, with the latest.
        self._is_behind = False
        try:
            self._switch_memory = self._pool.switch(tp, self._weights.latest)
            self._tp = tp
        except (RunFailedError, ValueError) as error:
            if not self._pool.is_started:
                self._restart(error)
            problems.append(str(error))
        else:
            problems.append(self._switch_memory.problem)
            drift = self._drift(probe, before)
            problems.append(self._rules.judge(drift))
        return Switch(
            from_tp=old_tp,
            to_tp=tp,
            tp=self._tp,
            switch_s=time.perf_counter() - start_s,
            with_weights=with_weights,
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
        after = self._score(kept)
        return compare_logprobs([before[probe.index(context)] for context in kept], after)

    def _score(self, contexts: Sequence[Sequence[int]]) -> list[list[float]]:
        return self._recovering(lambda: self._pool.current.score(contexts))

    def _recovering(self, work: Callable[[], T]) -> T:
        while True:
            try:
                if self._is_behind:
                    self._pool.current.load(self._weights.latest)
                    self._is_behind = False
                return work()
            except LostVllmError as error:
                self._restart(error)

    def _restart(self, error: RunFailedError | ValueError) -> None:
        """Start vLLM anew with the latest weights, again if need be, or give up."""
        while self._num_restarts < self._rules.max_restarts:
            self._num_restarts += 1
            self._note(f"{error}; starting vLLM anew at tp {self._tp}")
            try:
                self._pool.restart(self._tp, self._weights.latest)
            except RunFailedError as again:
                error = again
            else:
                self._is_behind = False
                return
        raise error
