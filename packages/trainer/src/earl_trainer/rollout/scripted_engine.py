"""A deterministic engine for tests and examples: replies come from a function of the context."""

from collections.abc import Callable, Sequence
from typing import final

from earl_trainer.rollout.engine import Completion, FinishReason, Request


@final
class ScriptedEngine:
    """Answers each request with `script(prompt_ids)`, cut at a stop token and at its limit.

    Every token gets log-probability 0, as from a model that is certain of its script.

    Example:
        >>> engine = ScriptedEngine(lambda prompt_ids: [prompt_ids[-1], 0], stop_ids={0})
        >>> engine.generate([Request(sequence_id=0, prompt_ids=[7], max_new_tokens=4,
        ...                          temperature=1.0, seed=0)])[0].ids
        (7, 0)
    """

    def __init__(
        self,
        script: Callable[[Sequence[int]], Sequence[int]],
        *,
        stop_ids: frozenset[int] | set[int],
        capacity_tokens: int = 1 << 30,
    ) -> None:
        self._script = script
        self._stop_ids = frozenset(stop_ids)
        self._capacity_tokens = capacity_tokens
        self._version = 0

    @property
    def version(self) -> int:
        """Version of the weights that the script stands for."""
        return self._version

    @property
    def tp(self) -> int:
        """Always 1."""
        return 1

    @property
    def capacity_tokens(self) -> int:
        """The capacity given at construction."""
        return self._capacity_tokens

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer every request at once."""
        return [self._complete(request) for request in requests]

    def interrupt(self) -> None:
        """Nothing is ever left running: each reply is whole when `generate` returns."""

    def load_weights(self, version: int) -> None:
        """Label later tokens with `version`."""
        self._version = version

    def resize(self, tp: int) -> None:
        """Accept only one rank.

        Raises:
            ValueError: If `tp` is not 1.
        """
        if tp != 1:
            raise ValueError(f"a scripted engine has one rank: tp must be 1, got {tp}")

    def close(self) -> None:
        """Hold nothing to let go of."""

    def _complete(self, request: Request) -> Completion:
        ids = tuple(self._script(request.prompt_ids))[: request.max_new_tokens]
        stop_ids = request.stop_ids_or(self._stop_ids)
        ends = [place for place, token in enumerate(ids, start=1) if token in stop_ids]
        ids = ids[: min(ends, default=None)]
        return Completion(
            ids=ids,
            logprobs=(0.0,) * len(ids),
            versions=(self._version,) * len(ids),
            finish_reason=FinishReason.STOP if ends else FinishReason.LENGTH,
        )
