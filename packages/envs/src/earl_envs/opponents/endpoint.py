"""A model behind an OpenAI-compatible chat endpoint as opponent."""

import http.client
import json
import os
import time
import urllib.error
import urllib.request
from queue import Empty, SimpleQueue
from threading import TIMEOUT_MAX, Thread
from typing import Any, final
from urllib.parse import urlsplit

import numpy as np

from earl_envs.game import Game, State
from earl_envs.text.protocol import ParseFailure, TextProtocol

API_KEY_VARIABLE = "OPENAI_API_KEY"
_MAX_ANSWER_BYTES = 4 * 2**20
_CHUNK_BYTES = 2**16
_MAX_QUOTED_CHARS = 200


class EndpointError(RuntimeError):
    """The endpoint gave no usable answer."""


@final
class NoLegalMoveError(EndpointError):
    """The model answered, but none of its replies named a legal move.

    Attributes:
        failure: What was wrong with the last reply.
    """

    def __init__(self, message: str, failure: ParseFailure) -> None:
        super().__init__(message, failure)
        self.failure = failure

    def __str__(self) -> str:
        """Return the message alone."""
        return str(self.args[0])


@final
class EndpointOpponent:
    """Asks a server for every move: the rules, then the board as the seat sees it.

    A reply without a legal move is asked for again with another seed. When the last one names none
    either, `NoLegalMoveError` is raised, by which the model forfeits a game of a match. Anything
    else that goes wrong raises another `EndpointError`, so that the episode ends as an error and
    not as a win.

    Attributes:
        max_concurrent_moves: How many of its moves may be asked for at a time.

    Example:
        opponent = EndpointOpponent("http://localhost:8000/v1", model="my-model")
    """

    def __init__(
        self,
        url: str,
        *,
        model: str,
        timeout_s: float | int = 60.0,
        num_retries: int = 2,
        temperature: float | int | None = None,
        api_key: str | None = None,
        max_concurrent_moves: int = 32,
    ) -> None:
        """Say whom to ask; nothing is sent yet.

        Args:
            url: Base address, to which `/chat/completions` is added.
            model: Name of the model on the server.
            timeout_s: How long one request may take in all.
            num_retries: How often a reply without a legal move is asked for again.
            temperature: Of the server's sampling; None leaves it to the server.
            api_key: Sent as bearer token; by default the environment variable `OPENAI_API_KEY`
                at the time of the request, or nothing.
            max_concurrent_moves: How many moves may be asked for at a time.
        """
        if not _is_address(url):
            raise ValueError(f"an endpoint is an address such as http://host:8000/v1, got {url!r}")
        if not model:
            raise ValueError(f"an endpoint needs the name of a model: {url}#MODEL")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s must be > 0, got {timeout_s}")
        if timeout_s > TIMEOUT_MAX:
            raise ValueError(f"timeout_s must be <= {TIMEOUT_MAX:g}, got {timeout_s}")
        if num_retries < 0:
            raise ValueError(f"num_retries must be >= 0, got {num_retries}")
        if max_concurrent_moves < 1:
            raise ValueError(f"max_concurrent_moves must be >= 1, got {max_concurrent_moves}")
        self.max_concurrent_moves = max_concurrent_moves
        self._url = url.rstrip("/") + "/chat/completions"
        self._model = model
        self._timeout_s = float(timeout_s)
        self._num_retries = num_retries
        self._temperature = temperature
        self._api_key = api_key
        self._opener = urllib.request.build_opener(_NoRedirects())

    @classmethod
    def from_text(cls, address: str) -> "EndpointOpponent":
        """Read an address such as `http://localhost:8000/v1#my-model`."""
        url, _, model = address.partition("#")
        return cls(url, model=model)

    def move(self, game: Game[State], state: State, seat: int, rng: np.random.Generator) -> int:
        """Ask for a move until a reply names a legal one.

        Raises:
            NoLegalMoveError: If no reply does.
            EndpointError: If the server does not answer as it should.
        """
        protocol = TextProtocol(game)
        messages = [
            {"role": "system", "content": protocol.system_message()},
            {"role": "user", "content": protocol.turn_message(state, seat)},
        ]
        failure, detail = ParseFailure.UNPARSABLE, ""
        for _ in range(self._num_retries + 1):
            parsed = protocol.parse(self._reply(messages, seed=int(rng.integers(2**31))), state)
            if parsed.failure is None:
                assert parsed.action is not None, "a reply gives a move or says why not"
                return parsed.action
            failure, detail = parsed.failure, parsed.detail
        raise NoLegalMoveError(
            f"{self._model} named no legal move in {self._num_retries + 1} replies: {detail}",
            failure,
        )

    def _reply(self, messages: list[dict[str, str]], *, seed: int) -> str:
        body: dict[str, Any] = {"model": self._model, "messages": messages, "seed": seed}
        if self._temperature is not None:
            body["temperature"] = self._temperature
        answer = self._post(json.dumps(body).encode())
        try:
            content = json.loads(answer)["choices"][0]["message"]["content"]
        except (ValueError, LookupError, TypeError, RecursionError):
            raise EndpointError(f"{self._url} answered {_quote(answer)}") from None
        # A model that spends its tokens on reasoning has no content.
        if content is None:
            return ""
        if not isinstance(content, str):
            raise EndpointError(f"{self._url} answered with content {_quote(answer)}")
        return content

    def _post(self, body: bytes) -> bytes:
        # The sockets' own time limit is per packet and lookups of names have none, so the whole
        # request is waited for from outside. One that is given up ends with its connection.
        outcomes: SimpleQueue[bytes | Exception] = SimpleQueue()
        deadline_s = time.monotonic() + self._timeout_s

        def work() -> None:
            try:
                outcomes.put(self._request(body, deadline_s))
            except Exception as error:  # noqa: BLE001 - raised again where it was asked for
                outcomes.put(error)

        Thread(target=work, daemon=True).start()
        try:
            outcome = outcomes.get(timeout=self._timeout_s)
        except Empty:
            outcome = EndpointError(f"{self._url} failed: no answer within {self._timeout_s:g} s")
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _request(self, body: bytes, deadline_s: float) -> bytes:
        headers = {"Content-Type": "application/json"}
        key = os.environ.get(API_KEY_VARIABLE) if self._api_key is None else self._api_key
        if key:
            headers["Authorization"] = f"Bearer {key.strip()}"
        request = urllib.request.Request(self._url, data=body, headers=headers, method="POST")
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return _read(response, deadline_s)
        except urllib.error.HTTPError as error:
            with error:
                raise EndpointError(f"{self._url} answered {error.code}: {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, TimeoutError):
                cause = f"no answer within {self._timeout_s:g} s"
            raise EndpointError(f"{self._url} failed: {cause}") from None


@final
class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: following it would send the key to whoever it names."""

    def redirect_request(self, *_: Any, **__: Any) -> None:  # noqa: ANN401 - urllib's signature
        """Follow nothing."""


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return False
    whole = url.isprintable() and not any(map(str.isspace, url))
    return whole and parts.scheme in ("http", "https") and bool(parts.hostname) and port != 0


def _read(response: http.client.HTTPResponse, deadline_s: float) -> bytes:
    """Read an answer; nobody waits for it after the deadline."""
    chunks: list[bytes] = []
    num_bytes = 0
    while chunk := response.read1(_CHUNK_BYTES):
        chunks.append(chunk)
        num_bytes += len(chunk)
        if time.monotonic() > deadline_s:
            raise TimeoutError
        if num_bytes > _MAX_ANSWER_BYTES:
            raise EndpointError(f"the answer is longer than {_MAX_ANSWER_BYTES} bytes")
    return b"".join(chunks)


def _quote(answer: bytes) -> str:
    return repr(answer[:_MAX_QUOTED_CHARS].decode(errors="replace"))
