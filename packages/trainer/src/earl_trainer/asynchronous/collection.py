"""Episodes that others play while the learner learns."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from torch import nn

from earl_trainer.asynchronous.ledger import GroupLedger
from earl_trainer.asynchronous.publication import Publication
from earl_trainer.asynchronous.shares import WorkerShares
from earl_trainer.asynchronous.split import SplitMeter
from earl_trainer.asynchronous.workers import LostRolloutWorkerError, Workers
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.rollout.collector import Rollout
from earl_trainer.types import EpisodeStart, RunFailedError

_POLL_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundRules:
    """How workers are dealt with."""

    timeout_s: float
    """Longest time that a batch may take."""
    first_version: int = 0
    """That the first batch is trained with."""
    max_restarts: int = 0
    """How often lost workers are started anew; afterwards the others play on alone."""
    publish_every: int = 1
    """Versions from one that the workers are handed to the next."""
    worker_cores: Sequence[int] = (1,)
    """That each worker computes with."""
    learner_cores: int | None = 1
    """That the process that learns computes with; None where it shares those of the workers."""
    has_functions: bool = False
    """Whether groups also wait for rewards that functions compute."""


@final
class BackgroundCollection:
    """The rollout stage of asynchronous training: groups are played by workers.

    Everything here runs in the learner's process, between two updates:

        consumes   groups that workers have finished, their acknowledgements of new weights
        produces   batches of groups, oldest first; grants of new groups; new weights
        waits for  a whole batch, in `collect` alone, and at most `timeout_s`
        unblocked  by a worker's groups, or by its loss: its groups go to the others

    State has one owner each: what became of a group, the ledger; who plays it, this class; a
    model that generates, its worker's thread. A grant follows the acknowledgement of the weights
    that allow it, so that the version of the rule is that of every engine. The groups under way are
    bounded by the ledger, and with them every queue. Shutdown: `close` ends the workers at once,
    wherever they are; nothing here is a thread.

    Args:
        workers: Play; closed with this.
        publication: Brings weights to them; closed with this.
        ledger: Admits and hands out.
        starts: Episodes of a group, by its number.
        rules: How workers are dealt with.
        note: Is told in one line of lost workers.
        on_close: Called when the workers have ended.
    """

    def __init__(
        self,
        workers: Workers,
        ledger: GroupLedger,
        starts: Callable[[int], Sequence[EpisodeStart]],
        *,
        publication: Publication,
        rules: BackgroundRules,
        note: Callable[[str], None],
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_close = on_close
        self._workers = workers
        self._ledger = ledger
        self._starts = starts
        self._rules = rules
        self._restarts_left = rules.max_restarts
        self._note = note
        self._playing: dict[int, set[int]] = {
            worker: set() for worker in range(workers.num_workers)
        }
        self._publication = publication
        self._newest: tuple[nn.Module, int] | None = None
        self._lacking: set[int] = set()
        self._version: int | None = None
        self._publish_s = 0.0
        self._shares = WorkerShares(rules.worker_cores)
        self._meter = SplitMeter(rules.worker_cores, rules.learner_cores)
        self._collected_s: float | None = None
        self._busy_s = self._idle_s = self._reward_wait_s = 0.0
        self._peak_resident_tokens = 0
        self._closed = False
        self.takes_starts = False
        self.figures: Mapping[str, float] = {}

    def to_dict(self) -> dict[str, Any]:  # Any: plain values for JSON
        """Return what a run that goes on needs to know."""
        return self._ledger.to_dict()

    def publish(self, model: nn.Module, version: int) -> None:
        """Hand the workers new weights, once all have those before; they go on generating.

        Args:
            model: Its weights stay as they are until the next `collect` has returned.
            version: Of them.
        """
        self._newest = model, version
        if self._version is not None and version < self._version + self._rules.publish_every:
            return
        start_s = time.perf_counter()
        self._wait_for_weights()
        self._version = version
        self._lacking.update(self._playing)
        self._supply()
        self._publish_s = time.perf_counter() - start_s

    def collect(self, request: RolloutRequest) -> Rollout:
        """Return the groups of the next batch.

        A run that cuts contexts for want of memory, or throttles them, does not run like this.

        Raises:
            RunFailedError: If there is no batch within the time, or no worker left.
        """
        start_s = time.perf_counter()
        learn_s = None if self._collected_s is None else start_s - self._collected_s
        self._wait_for_weights()
        while True:
            self._admit()
            batch = self._ledger.take_batch(request.step)
            if batch is not None:
                break
            counts = self._ledger.counts
            request.on_turn(f"{counts.running} groups running, {counts.queued} waiting")
            if time.perf_counter() - start_s > self._rules.timeout_s:
                raise RunFailedError(
                    f"no batch of groups within {self._rules.timeout_s:g} s: {counts.running} are "
                    f"running{self._name_players()}, {counts.queued} are waiting, and "
                    f"{counts.rejected} had nothing to train on"
                )
            self._hear()
        self._admit()
        self._collected_s = time.perf_counter()
        self._tell(wait_s=self._collected_s - start_s, learn_s=learn_s)
        resident_tokens, self._peak_resident_tokens = self._peak_resident_tokens, 0
        return Rollout(
            episodes=[episode for group in batch for episode in group.episodes],
            peak_resident_tokens=resident_tokens,
        )

    def close(self) -> None:
        """End the workers, whatever they do; a second time does nothing."""
        proposal = self._meter.propose()
        if not self._closed and proposal is not None and proposal.sentence:
            self._note(proposal.sentence)
        self._closed = True
        self._workers.close()
        self._publication.close()
        self._on_close()

    def _admit(self) -> None:
        """Grant the groups that may be started, each to whoever is done with it first."""
        grants: dict[int, list[int]] = {worker: [] for worker in self._playing}
        for number in self._ledger.admit((self._version or 0) - self._rules.first_version):
            worker = self._shares.choose({
                worker: len(numbers) for worker, numbers in self._playing.items()
            })
            self._playing[worker].add(number)
            grants[worker].append(number)
        for worker, numbers in grants.items():
            if numbers:
                self._workers.grant(worker, [(number, self._starts(number)) for number in numbers])

    def _name_players(self) -> str:
        shares = [
            f"{len(numbers)} at rollout worker {worker}"
            for worker, numbers in self._playing.items()
            if numbers
        ]
        return f" ({', '.join(shares)})" if shares else ""

    def _hear(self) -> None:
        lost: list[LostRolloutWorkerError] = []
        for worker, news in self._workers.take(list(self._playing), _POLL_S).items():
            if isinstance(news, LostRolloutWorkerError):
                lost.append(news)
                continue
            self._busy_s += news.busy_s
            self._idle_s += news.idle_s
            self._shares.add(worker, num_groups=len(news.groups), busy_s=news.busy_s)
            self._meter.add_generation(worker, busy_s=news.busy_s, idle_s=news.idle_s)
            self._reward_wait_s += news.reward_wait_s
            self._peak_resident_tokens = max(self._peak_resident_tokens, news.peak_resident_tokens)
            for group in news.groups:
                self._playing[worker].remove(group.number)
                self._ledger.finish(group)
        for error in lost:
            self._replace(error)
        if lost:
            self._wait_for_weights()

    def _supply(self) -> None:
        """Bring the newest weights to all that lack them, those that are lost meanwhile too."""
        while self._lacking and self._newest is not None:
            try:
                self._publication.publish(*self._newest, sorted(self._lacking))
                self._lacking.clear()
            except LostRolloutWorkerError as error:
                self._replace(error)

    def _wait_for_weights(self) -> None:
        timeout_s = self._rules.timeout_s
        deadline_s = time.monotonic() + timeout_s
        while True:
            self._supply()
            try:
                late = self._workers.wait_for_weights(_POLL_S)
            except LostRolloutWorkerError as error:
                self._replace(error)
                continue
            if not late:
                return
            # Replies that are not broken off take their time.
            if time.monotonic() > deadline_s:
                why = f"it has not taken over new weights within {timeout_s:g} s"
                self._replace(LostRolloutWorkerError(late[0], why))
                deadline_s = time.monotonic() + timeout_s

    def _replace(self, error: LostRolloutWorkerError) -> None:
        """Start a lost worker anew, or do without; its groups are played again from the start."""
        worker, numbers = error.worker, sorted(self._playing.pop(error.worker))
        self._publication.forget(worker)
        self._lacking.discard(worker)
        self._ledger.requeue(numbers)
        while self._restarts_left > 0:
            self._restarts_left -= 1
            self._note(f"{error}; it is started anew, its {len(numbers)} groups with it")
            try:
                self._workers.restart(worker)
            except LostRolloutWorkerError as again:
                error = again
                continue
            self._playing[worker] = set()
            self._lacking.add(worker)
            return
        if not self._playing:
            raise RunFailedError(f"{error}; none is left") from error
        self._note(f"{error}; the others play its {len(numbers)} groups")
        self._workers.abandon(worker)

    def _tell(self, *, wait_s: float, learn_s: float | None) -> None:
        counts = self._ledger.counts
        whole_s = self._busy_s + self._idle_s
        self._meter.add_batch(wait_s=wait_s, learn_s=learn_s)
        proposal = self._meter.propose()
        self.figures = {
            "async/wait_s": wait_s,
            "async/publish_s": self._publish_s,
            **({} if proposal is None else {"async/proposed_split": proposal.split}),
            "async/generation_idle_share": self._idle_s / whole_s if whole_s else 0.0,
            **{
                f"async/{name}_groups": float(getattr(counts, name))
                for name in (
                    "submitted",
                    "running",
                    "accepted",
                    "rejected",
                    "consumed",
                    "queued",
                    "dropped",
                )
            },
        }
        if self._rules.has_functions:
            self.figures = {**self.figures, "reward/wait_s": self._reward_wait_s}
        self._busy_s = self._idle_s = self._reward_wait_s = 0.0
