"""How new weights come to the workers."""

from collections.abc import Sequence
from typing import Protocol, final, runtime_checkable

from torch import nn

from earl_trainer.asynchronous.weights import checksums, pack_weights
from earl_trainer.asynchronous.workers import Workers


@runtime_checkable
class Publication(Protocol):
    """Hands workers the weights of a model, all of them the same."""

    def publish(self, model: nn.Module, version: int, workers: Sequence[int]) -> None:
        """Bring weights to workers; `Workers.wait_for_weights` waits until they are in use.

        The model may change as soon as this returns.

        Raises:
            LostRolloutWorkerError: If one is gone; then nobody has them, and it can be repeated.
        """
        ...

    def forget(self, worker: int) -> None:
        """Let go of a worker that is gone, or was started anew."""
        ...

    def close(self) -> None:
        """Let go of all workers."""
        ...


@final
class StorePublication:
    """Through the store that processes of one machine share, and that machines copy between them.

    Args:
        workers: Take them over.
        check: Send checksums along, which are compared with what arrives.
    """

    def __init__(self, workers: Workers, *, check: bool = False) -> None:
        self._workers = workers
        self._check = check

    def publish(self, model: nn.Module, version: int, workers: Sequence[int]) -> None:
        """Put the weights there once, and tell workers where they are."""
        packed = pack_weights(model)
        sums = checksums(packed) if self._check else None
        shared = self._workers.share(packed)
        for worker in workers:
            self._workers.publish(worker, version, shared, sums)

    def forget(self, worker: int) -> None:
        """Nothing is kept of a worker."""

    def close(self) -> None:
        """Nothing is kept."""
