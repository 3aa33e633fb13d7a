"""A process that generates all the time: its model, its engine, and the games that it plays."""

import queue
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import torch
from earl_envs import make_game, make_opponent
from torch import Tensor

from earl_trainer.asynchronous.ledger import FinishedGroup
from earl_trainer.asynchronous.weights import require_checksums, unpack_weights
from earl_trainer.asynchronous.worker_engine import (
    WorkerSettings,
    make_streaming_engine,
    weights_device,
)
from earl_trainer.asynchronous.workers import Yield
from earl_trainer.parallel.exchange import Packed
from earl_trainer.parallel.sharded_model import put_shards
from earl_trainer.rewards.setup import make_judge
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.play import Play
from earl_trainer.rollout.policies import LanguagePolicy
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.streaming_collector import StreamingCollector
from earl_trainer.types import EpisodeStart

_POLL_S = 0.05
_CLOSE_TIMEOUT_S = 2.0
_ACKNOWLEDGE_TIMEOUT_S = 600.0


@dataclass(slots=True, kw_only=True)
class _Publication:
    """New weights on their way into the engine."""

    version: int
    packed: Packed | Sequence[Tensor]
    checksums: Sequence[int] | None
    taken: threading.Event


@final
class RolloutWorker:
    """Plays what it is granted in a thread of its own, and hears of the rest between two tokens.

    The thread owns model, engine and games; calls from outside only leave it messages, in this
    order of time: weights and groups that came together take effect together.

        publish(v) -> inbox -> [thread: finish replies or interrupt them; load v] -> acknowledged
        grant(groups) -> inbox -> [thread: begin them, a token of each reply at a time] -> finished
        take() <- finished; or what the thread raised

    Where functions reward episodes, a group is finished once its rewards are there; others are
    played meanwhile.

    Args:
        settings: The same for all workers, but for its number and its threads.
    """

    def __init__(self, settings: WorkerSettings) -> None:
        self._settings = settings
        self._inbox: queue.SimpleQueue[_Publication | tuple[int, Sequence[EpisodeStart]]] = (
            queue.SimpleQueue()
        )
        self._finished: queue.SimpleQueue[FinishedGroup] = queue.SimpleQueue()
        self._woken = threading.Event()
        self._error: BaseException | None = None
        self._busy_s = self._idle_s = self._reward_wait_s = 0.0
        self._peak_resident_tokens = 0
        self._played: list[FinishedGroup] = []
        self._pending: _Publication | None = None
        self._make()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def publish(
        self,
        version: int,
        packed: Packed | Sequence[Tensor],
        checksums: Sequence[int] | None = None,
    ) -> int:
        """Hand over new weights; return their version once the engine generates with them.

        Args:
            version: Of the weights.
            packed: The bytes of every parameter, from `pack_weights` or a `WeightReceiver`.
            checksums: What the engine's parameters are compared with, if with anything.

        Raises:
            TimeoutError: If it does not get to it.
        """
        publication = _Publication(
            version=version, packed=packed, checksums=checksums, taken=threading.Event()
        )
        self._inbox.put(publication)
        self._woken.set()
        deadline_s = time.monotonic() + _ACKNOWLEDGE_TIMEOUT_S
        while not publication.taken.wait(_POLL_S):
            self._raise_error()
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"version {version} was not taken over in time")
        return version

    def grant(self, groups: Sequence[tuple[int, Sequence[EpisodeStart]]]) -> None:
        """Hand over groups to play, by their numbers."""
        for group in groups:
            self._inbox.put(group)
        self._woken.set()

    def take(self, timeout_s: float) -> Yield:
        """Return the groups that have ended since, waiting for one at most so long."""
        self._raise_error()
        groups: list[FinishedGroup] = []
        try:
            groups.append(self._finished.get(timeout=timeout_s))
            while True:
                groups.append(self._finished.get_nowait())
        except queue.Empty:
            self._raise_error()
        busy_s, idle_s, peak = self._busy_s, self._idle_s, self._peak_resident_tokens
        self._busy_s, self._idle_s, self._peak_resident_tokens = 0.0, 0.0, 0
        reward_wait_s, self._reward_wait_s = self._reward_wait_s, 0.0
        return Yield(
            groups=groups,
            busy_s=busy_s,
            idle_s=idle_s,
            peak_resident_tokens=peak,
            reward_wait_s=reward_wait_s,
        )

    def close(self) -> None:
        """End the thread before its next token, and let go of what the engine holds."""
        self._closed.set()
        self._woken.set()
        self._thread.join(_CLOSE_TIMEOUT_S)

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _make(self) -> None:
        config = self._settings.config
        device = weights_device(config)
        self._model = self._settings.blueprint.build(device)
        put_shards(
            self._model,
            {
                name: torch.empty_like(parameter, device=device)
                for name, parameter in self._model.named_parameters()
            },
        )
        self._engine = make_streaming_engine(self._settings, self._model)
        game = make_game(config.env)
        self._judge = make_judge(config)
        self._collector = StreamingCollector(
            Seating(
                game,
                game_id=config.env,
                opponent=None if config.self_play else make_opponent(config.opponent),
                match_opponent=make_opponent(config.match_opponent),
            ),
            Play(
                game,
                chat=ChatFormat(self._settings.tokenizer),
                max_context_tokens=config.rollout.max_context_tokens,
                max_reply_tokens=config.rollout.max_reply_tokens,
            ),
            engine=self._engine,
            policy=LanguagePolicy(self._engine, temperature=config.rollout.temperature),
            on_episode=None if self._judge is None else self._judge.submit,
        )

    def _run(self) -> None:
        # Set in the thread that computes: the library's pool is that of the calling thread.
        torch.set_num_threads(self._settings.num_threads)
        try:
            with torch.no_grad():
                while not self._closed.is_set():
                    self._turn()
        except BaseException as error:  # noqa: BLE001 - told to whoever asks next
            self._error = error
        finally:
            self._engine.close()
            if self._judge is not None:
                self._judge.close()

    def _turn(self) -> None:
        start_s = time.perf_counter()
        self._obey()
        self._hand_out()
        if not self._collector.is_busy:
            self._woken.wait(_POLL_S)
            self._woken.clear()
            idle_s = time.perf_counter() - start_s
            self._idle_s += idle_s
            self._reward_wait_s += idle_s if self._played else 0.0
            return
        for number, episodes in self._collector.advance(ask=self._pending is None):
            self._played.append(FinishedGroup(number=number, episodes=episodes))
        self._hand_out()
        self._peak_resident_tokens = max(self._peak_resident_tokens, self._engine.resident_tokens)
        self._busy_s += time.perf_counter() - start_s

    def _hand_out(self) -> None:
        """Let groups go whose rewards are there."""
        waiting, self._played = self._played, []
        for group in waiting:
            if self._judge is None:
                self._finished.put(group)
            elif self._judge.is_done(group.episodes):
                self._finished.put(replace(group, episodes=self._judge.collect(group.episodes)))
            else:
                self._played.append(group)

    def _obey(self) -> None:
        """Act on what was left; weights wait for the replies that run unless these are broken."""
        while self._pending is None:
            try:
                message = self._inbox.get_nowait()
            except queue.Empty:
                return
            if isinstance(message, _Publication):
                self._pending = message
            else:
                self._collector.begin(*message)
                continue
        if self._settings.config.asynchronous.interrupt or not self._collector.num_replies_running:
            self._load(self._pending)
            self._pending = None
            self._obey()

    def _load(self, publication: _Publication) -> None:
        unpack_weights(publication.packed, self._model)
        if publication.checksums is not None:
            require_checksums(self._model, publication.checksums)
        self._engine.load_weights(publication.version)
        publication.taken.set()
