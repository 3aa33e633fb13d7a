"""What generates replies outside of this process, whatever carries the requests there."""

from pathlib import Path
from typing import Protocol, runtime_checkable

from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.types import RunFailedError


class LostServerError(RunFailedError):
    """A server does not answer any more; what it was doing can be asked of another."""


@runtime_checkable
class ReplyServer(Protocol):
    """One server of replies; its coroutines run on one event loop.

    Lifecycle: `update_weights` first; then `generate` any number at once. New weights in mid-reply:
    `pause`, `update_weights`, `resume`. `close` at any time.
    """

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that it holds at once."""
        ...

    @property
    def needs_folder(self) -> bool:
        """Whether the next `update_weights` reads its folder; else weights come another way."""
        ...

    async def generate(self, request: Request) -> Completion:
        """Generate one reply under the weights in use; ABORT with the tokens so far if paused.

        Raises:
            LostServerError: If the server is gone, or does not answer within its timeout.
        """
        ...

    async def pause(self) -> None:
        """End all running replies as far as they got, and begin none until `resume`."""
        ...

    async def update_weights(self, folder: Path, version: int) -> None:
        """Take over the weights of a model folder and forget every cache of older ones.

        Raises:
            LostServerError: If it has not acknowledged within its timeout.
        """
        ...

    async def resume(self) -> None:
        """Begin replies again."""
        ...

    async def close(self) -> None:
        """Let go of the server; one that was started for this run ends."""
        ...
