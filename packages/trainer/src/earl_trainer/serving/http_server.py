"""What servers behind HTTP have in common, whatever they speak."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from earl_trainer.rollout.engine import Completion, Request
from earl_trainer.serving.calls import RunningCalls
from earl_trainer.serving.http import JsonClient


class HttpServer(ABC):
    """A `ReplyServer` at an address, which reads new weights from a folder.

    Args:
        client: Of the server.
        capacity_tokens: That its cache holds.
        control_timeout_s: Longest time that a pause, new weights, or going on again may take.
        grace_s: How long a reply that is paused may take to say how far it got.
    """

    def __init__(
        self,
        client: JsonClient,
        *,
        capacity_tokens: int,
        control_timeout_s: float | int,
        grace_s: float | int,
    ) -> None:
        self._client = client
        self._capacity_tokens = capacity_tokens
        self._control_timeout_s = control_timeout_s
        self._version = 0
        self._calls = RunningCalls(grace_s=grace_s)

    @property
    def name(self) -> str:
        """Its address."""
        return self._client.url

    @property
    def capacity_tokens(self) -> int:
        """Context tokens that it holds at once."""
        return self._capacity_tokens

    @property
    def needs_folder(self) -> bool:
        """Always: the folder is all that such a server is told of weights."""
        return True

    async def generate(self, request: Request) -> Completion:
        """Generate one reply under the weights in use; ABORT with the tokens so far if paused."""
        return await self._calls.run(self._generate(request, self._version))

    async def pause(self) -> None:
        """End all running replies as far as they got, and begin none until `resume`."""
        await self._calls.end(self._abort_all)

    async def update_weights(self, folder: Path, version: int) -> None:
        """Read the weights in a folder and forget what was cached under older ones.

        Raises:
            RunFailedError: If it fails, or does not within its time.
        """
        await self._load(folder, version)
        self._version = version

    async def close(self) -> None:
        """Close the connections; the server goes on."""
        await self._client.close()

    @abstractmethod
    async def resume(self) -> None:
        """Begin replies again."""

    @abstractmethod
    async def _generate(self, request: Request, version: int) -> Completion:
        """Ask for one reply, all of it emitted by `version`."""

    @abstractmethod
    async def _abort_all(self) -> None:
        """Ask for the end of all replies."""

    @abstractmethod
    async def _load(self, folder: Path, version: int) -> None:
        """Have it read the weights, and see that it did."""

    async def _control(self, path: str, body: Any = None) -> Any:  # noqa: ANN401 - JSON
        return await self._client.post(path, body, timeout_s=self._control_timeout_s)
