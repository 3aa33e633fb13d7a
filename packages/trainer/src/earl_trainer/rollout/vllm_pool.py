"""One configuration of an engine per tensor-parallel degree, of which one is awake."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar, final, runtime_checkable

from earl_trainer.types import RunFailedError

_LOGGER = logging.getLogger(__name__)


@runtime_checkable
class Configuration(Protocol):
    """An engine at one degree, in processes of its own.

    Lifecycle: made awake; `sleep` and `wake` in turns where it can; `close`.
    """

    @property
    def tp(self) -> int:
        """Its degree."""
        ...

    @property
    def sleeping_bytes(self) -> int:
        """What `sleep` lets go of at least: weights and cache, on all ranks together."""
        ...

    def held_bytes(self) -> int:
        """Return the memory in use: of its processes, or of the whole devices it runs on."""
        ...

    def sleep(self) -> None:
        """Let go of weights and cache; the processes stay."""
        ...

    def wake(self, folder: Path) -> None:
        """Take up memory again, with the weights in `folder`."""
        ...

    def close(self) -> None:
        """End its processes; again is harmless."""
        ...


C = TypeVar("C", bound=Configuration)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchMemory:
    """The memory of a pool around a switch."""

    before_bytes: int
    """Held by the old configuration."""
    released_bytes: int
    """Of these, given back before the new one was started or woken."""
    after_bytes: int
    """Held by the new one."""
    required_bytes: int
    """What at least had to be given back."""

    @property
    def problem(self) -> str:
        """What of it should not be; empty if nothing."""
        if self.released_bytes >= self.required_bytes:
            return ""
        return (
            f"the old configuration gave back {self.released_bytes:,} of {self.before_bytes:,} "
            f"bytes, at least {self.required_bytes:,} were to be free"
        )


@final
class ConfigurationPool(Generic[C]):
    """Configurations of one engine.

    On GPUs the old one sleeps and wakes within a second or so; on a CPU, where vLLM cannot sleep,
    it is ended and started anew when it is needed again.

    Args:
        start: Starts the configuration of a degree with the weights in a folder.
        keeps: Whether configurations that are not in use sleep, and are not ended.
    """

    def __init__(self, start: Callable[[int, Path], C], *, keeps: bool) -> None:
        self._start = start
        self._keeps = keeps
        self._asleep: dict[int, C] = {}
        self._current: C | None = None

    @property
    def current(self) -> C:
        """The one in use."""
        if self._current is None:
            raise RuntimeError("load_weights starts the engine: call it first")
        return self._current

    @property
    def is_started(self) -> bool:
        """Whether one is in use."""
        return self._current is not None

    def begin(self, tp: int, folder: Path) -> None:
        """Start the first configuration."""
        self._current = self._start(tp, folder)

    def switch(self, tp: int, folder: Path) -> SwitchMemory:
        """Put the one in use to rest, and then wake or start that of `tp`.

        Never are two awake, so a rank's memory suffices throughout.

        Raises:
            RunFailedError: If the new one does not start; the old one is back in use then, unless
                that failed too.
            ValueError: If the new degree cannot run; the old one is back in use.
        """
        old = self.current
        before_bytes = old.held_bytes()
        self._rest(old)
        left_bytes = old.held_bytes()
        try:
            self._current = self._rouse(tp, folder)
        except (RunFailedError, ValueError):
            start_s = time.perf_counter()
            self._current = self._rouse(old.tp, folder)
            _LOGGER.warning("went back to tp %d in %.1f s", old.tp, time.perf_counter() - start_s)
            raise
        return SwitchMemory(
            before_bytes=before_bytes,
            released_bytes=before_bytes - left_bytes,
            after_bytes=self._current.held_bytes(),
            required_bytes=old.sleeping_bytes if self._keeps else before_bytes,
        )

    def restart(self, tp: int, folder: Path) -> None:
        """Start the configuration in use anew, or one of `tp` where none is left.

        Raises:
            RunFailedError: If it does not start; none is in use then.
        """
        for lost in (self._current, self._asleep.pop(tp, None)):
            if lost is not None:
                lost.close()
        self._current = None
        self._current = self._start(tp, folder)

    def close(self) -> None:
        """End all of them."""
        for each in [*self._asleep.values(), *([self._current] if self._current else [])]:
            each.close()
        self._asleep = {}
        self._current = None

    def _rest(self, old: C) -> None:
        self._current = None
        if self._keeps:
            self._asleep[old.tp] = old  # First, so that `close` knows it whatever happens.
            old.sleep()
        else:
            old.close()

    def _rouse(self, tp: int, folder: Path) -> C:
        if tp not in self._asleep:
            return self._start(tp, folder)
        try:
            self._asleep[tp].wake(folder)
        except RunFailedError:
            self._asleep.pop(tp).close()
            raise
        return self._asleep.pop(tp)
