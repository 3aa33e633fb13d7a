"""Rollout workers in threads of this process, and what became of every group that they got."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast, final

from earl_envs import EndReason
from earl_trainer.asynchronous.ledger import FinishedGroup
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.worker_engine import WorkerSettings
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Yield
from earl_trainer.parallel.exchange import Packed
from earl_trainer.types import EpisodeStart

_POLL_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A group that came back."""

    emitted_tokens: Sequence[int]
    """Of each episode."""
    took_s: float
    """From its grant on."""


@final
class LocalWorkers:
    """`Workers` that are threads; each is the one that an asynchronous run has in a process.

    `publish` waits for a worker to use the weights, which is what a run does next anyway.

    Args:
        settings: Of each worker.
        num_workers: That there are.
        fails: Which groups, by their numbers, come back as if their game's code had failed.
    """

    def __init__(
        self, settings: WorkerSettings, num_workers: int, *, fails: Callable[[int], bool]
    ) -> None:
        self.num_workers = num_workers
        self.playing: dict[int, set[int]] = {worker: set() for worker in range(num_workers)}
        """Groups that each has, and that nobody was told of yet."""
        self.told: dict[int, Told] = {}
        self._settings = settings
        self._fails = fails
        self._busy_s = 0.0
        self._workers = {worker: RolloutWorker(settings) for worker in range(num_workers)}
        self._heard: dict[int, list[Yield]] = {worker: [] for worker in range(num_workers)}
        self._granted_s: dict[int, float] = {}
        self._ended_s: dict[int, float] = {}

    @property
    def seconds_per_group(self) -> float:
        """How long workers that all have something to do took for one group more, so far."""
        return self._busy_s / self.num_workers / max(1, len(self.told))

    def share(self, value: object) -> object:
        """Return what all threads can read as it is."""
        return value

    def publish(
        self, worker: int, version: int, weights: object, checksums: Sequence[int] | None
    ) -> None:
        """Hand new weights to a worker, and wait until it uses them."""
        self._require(worker).publish(version, cast(Packed, weights), checksums)

    def wait_for_weights(self, timeout_s: float) -> Sequence[int]:
        """Return nobody: `publish` has waited.

        Raises:
            LostRolloutWorkerError: If one is gone.
        """
        for worker in range(self.num_workers):
            self._require(worker)
        return ()

    def grant(self, worker: int, groups: Sequence[tuple[int, Sequence[EpisodeStart]]]) -> None:
        """Hand groups to a worker."""
        numbers = [number for number, _ in groups]
        self.playing[worker].update(numbers)
        self._granted_s |= dict.fromkeys(numbers, time.monotonic())
        self._require(worker).grant(groups)

    def watch(self, duration_s: float, *, until_news: bool = False) -> None:
        """Note what ends and when, for so long, or until there is something to be told.

        Args:
            duration_s: That is spent at most.
            until_news: Whether it ends with the first group.
        """
        deadline_s = time.monotonic() + duration_s
        while time.monotonic() < deadline_s:
            for worker, thread in self._workers.items():
                news = thread.take(_POLL_S)
                self._heard[worker].append(news)
                self._busy_s += news.busy_s
                now_s = time.monotonic()
                self._ended_s |= {group.number: now_s for group in news.groups}
            if until_news and any(
                news.groups for all_news in self._heard.values() for news in all_news
            ):
                return

    def take(
        self, workers: Sequence[int], timeout_s: float
    ) -> dict[int, Yield | LostRolloutWorkerError]:
        """Return what workers have to tell, waiting for the first of them at most so long."""
        gone = {
            worker: LostRolloutWorkerError(worker, "it was ended")
            for worker in workers
            if worker not in self._workers
        }
        if not gone:
            self.watch(timeout_s, until_news=True)
        return {worker: gone.get(worker) or self._tell(worker) for worker in workers}

    def lose(self, worker: int) -> int:
        """End a worker in the middle of what it does; return how many groups are lost with it."""
        self._workers.pop(worker).close()
        self._heard[worker].clear()
        return len(self.playing[worker])

    def restart(self, worker: int) -> None:
        """Start a lost worker anew; it has neither weights nor groups."""
        self.playing[worker].clear()
        self._workers[worker] = RolloutWorker(self._settings)

    def abandon(self, worker: int) -> None:
        """Do without a lost worker."""
        self.playing[worker].clear()

    def close(self) -> None:
        """End all workers, whatever they do; a second time does nothing."""
        while self._workers:
            self._workers.popitem()[1].close()

    def _require(self, worker: int) -> RolloutWorker:
        if worker not in self._workers:
            raise LostRolloutWorkerError(worker, "it was ended")
        return self._workers[worker]

    def _tell(self, worker: int) -> Yield:
        heard, self._heard[worker] = self._heard[worker], []
        groups = [
            _spoil(group) if self._fails(group.number) else group
            for news in heard
            for group in news.groups
        ]
        for group in groups:
            self.playing[worker].remove(group.number)
            self.told[group.number] = Told(
                emitted_tokens=[
                    sum(len(turn.reply_ids) for turn in episode.turns) for episode in group.episodes
                ],
                took_s=self._ended_s[group.number] - self._granted_s[group.number],
            )
        return Yield(
            groups=groups,
            busy_s=sum(news.busy_s for news in heard),
            idle_s=sum(news.idle_s for news in heard),
            peak_resident_tokens=max((news.peak_resident_tokens for news in heard), default=0),
        )


def _spoil(group: FinishedGroup) -> FinishedGroup:
    """Let a group's last games have failed, so that nothing can be trained on."""
    return replace(
        group,
        episodes=[
            replace(
                episode,
                games=[
                    *episode.games[:-1],
                    replace(episode.games[-1], end_reason=EndReason.ENV_ERROR),
                ],
            )
            for episode in group.episodes
        ],
    )
