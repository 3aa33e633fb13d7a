"""JSON over HTTP, to a server that may be gone."""

from collections.abc import Mapping
from typing import Any, final

import httpx

from earl_trainer.serving.server import LostServerError
from earl_trainer.types import RunFailedError

_CONNECT_TIMEOUT_S = 10.0
# Servers close what has been idle for some seconds (uvicorn after 5): never use it by then.
_KEEP_IDLE_S = 2.0
_FIRST_SERVER_ERROR = 500
_FIRST_ERROR = 400
_MAX_ERROR_CHARS = 300


@final
class JsonClient:
    """One server's HTTP interface.

    Lifecycle: any calls, then `close`, which is undone by a further call; between two calls of
    `close` all come from one event loop.

    Args:
        url: Of the server, such as `http://host:8000`.
        timeout_s: Longest time that an answer may take.
        headers: Sent with every request.
    """

    def __init__(
        self, url: str, *, timeout_s: float | int, headers: Mapping[str, str] | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self._timeout_s = timeout_s
        self._headers = headers
        self._client: httpx.AsyncClient | None = None

    async def get(self, path: str) -> Any:  # noqa: ANN401 - parsed JSON
        """Return what a path answers.

        Raises:
            LostServerError: If there is no answer, or one that the server failed.
            RunFailedError: If the server refuses the request.
        """
        return await self._ask("GET", path)

    async def post(
        self,
        path: str,
        body: Any = None,  # noqa: ANN401 - values for JSON
        *,
        timeout_s: float | int | None = None,
    ) -> Any:  # noqa: ANN401 - parsed JSON
        """Send a body; return the answer.

        Args:
            path: With its query, if any.
            body: Plain values.
            timeout_s: Longest time for this answer; None for that of all.

        Raises:
            LostServerError: If there is no answer, or one that the server failed.
            RunFailedError: If the server refuses the request.
        """
        return await self._ask("POST", path, body=body, timeout_s=timeout_s)

    async def close(self) -> None:
        """Close all connections; what is still being asked fails."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,  # noqa: ANN401
        timeout_s: float | int | None = None,
    ) -> Any:  # noqa: ANN401
        longest_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            response = await self._open().request(
                method,
                self.url + path,
                json=body,
                timeout=httpx.Timeout(longest_s, connect=min(longest_s, _CONNECT_TIMEOUT_S)),
            )
        except httpx.TimeoutException as error:
            raise LostServerError(f"{self.url} does not answer within {longest_s:g} s") from error
        except (httpx.TransportError, RuntimeError) as error:  # RuntimeError: closed meanwhile
            why = " ".join(str(error).split()) or type(error).__name__
            raise LostServerError(f"{self.url} does not answer: {why}") from error
        if response.status_code >= _FIRST_ERROR:
            what = " ".join(response.text.split())[:_MAX_ERROR_CHARS]
            failed = response.status_code >= _FIRST_SERVER_ERROR
            raise (LostServerError if failed else RunFailedError)(
                f"{self.url} answers {path} with {response.status_code}: {what}"
            )
        try:
            return response.json() if response.content else None
        except ValueError as error:
            raise RunFailedError(f"{self.url} answers {path} with what is no JSON") from error

    def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            self._client = httpx.AsyncClient(
                # Servers are machines of the run: what a browser goes through is none of theirs.
                trust_env=False,
                headers=self._headers,
                limits=httpx.Limits(max_connections=None, keepalive_expiry=_KEEP_IDLE_S),
            )
        return self._client
