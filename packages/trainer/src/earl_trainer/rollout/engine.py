"""What every generation engine offers: token ids in, token ids with log-probs and versions out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from earl_trainer.rollout.switch import Switch

NO_WEIGHTS = -1
"""The version of a token that no weights emitted: of a prompt, or of a scripted reply."""


class FinishReason(StrEnum):
    """Why a completion ended."""

    STOP = "stop"
    """An end-of-turn token was emitted."""
    LENGTH = "length"
    """`max_new_tokens` was reached."""
    ABORT = "abort"
    """`interrupt` was called; the tokens so far are valid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One reply to generate."""

    sequence_id: int
    """Shared by the requests of one conversation, whose cache an engine may keep."""
    prompt_ids: Sequence[int]
    """[P] the whole context."""
    max_new_tokens: int
    """At least 1."""
    temperature: float
    """0 decodes greedily; the recorded log-probs are then those at temperature 1."""
    seed: int
    """Fixes the reply for given weights, whatever else is in the batch."""
    stop_ids: frozenset[int] | None = None
    """Tokens that end this reply; None for those of the engine."""

    def stop_ids_or(self, default: Collection[int]) -> Collection[int]:
        """Return the tokens that end the reply, asked of an engine with these of its own."""
        return default if self.stop_ids is None else self.stop_ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One generated reply; the three sequences have equal length."""

    ids: Sequence[int]
    """[R] emitted tokens, the end-of-turn token included."""
    logprobs: Sequence[float]
    """[R] log softmax(logits / temperature) at each emitted token."""
    versions: Sequence[int]
    """[R] version of the weights that emitted each token."""
    finish_reason: FinishReason


@runtime_checkable
class Engine(Protocol):
    """Generates replies with the current weights.

    Lifecycle: `load_weights(v)` before anything else; this and `resize(tp)` between rollouts,
    `generate` within one; `close`.
    `interrupt` may come from another thread; the running `generate` then returns what it has.
    """

    @property
    def version(self) -> int:
        """Version of the weights now in use."""
        ...

    @property
    def tp(self) -> int:
        """The tensor-parallel degree in use."""
        ...

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that can be resident at once; more are generated in several waves."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Completion]:
        """Generate one completion per request, in order."""
        ...

    def interrupt(self) -> None:
        """Make a running `generate` return at the next token."""
        ...

    def load_weights(self, version: int) -> None:
        """Take over the learner's weights as `version` and forget every cache of older ones.

        An engine may read them as late as at the next `resize` or `generate`; until then they stay
        as they are.
        """
        ...

    def resize(self, tp: int) -> Switch | None:
        """Use tensor-parallel degree `tp` from the next `generate` on; None if it does already.

        Either way the engine has the latest weights afterwards.
        """
        ...

    def close(self) -> None:
        """Let go of what the engine holds; nothing may be asked of it afterwards."""
        ...
