"""Servers that are not there: one in this process, and one that speaks HTTP."""

import asyncio
import json
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from earl_trainer.rollout.engine import Completion, FinishReason, Request
from earl_trainer.serving.server import LostServerError

STOP = 99


class FakeServer:
    """Emits token 10 + place in the context; log-probs tell version and place.

    `hold_after` tokens of a reply it waits for a pause. What is in `failures` fails: a name of a
    method with the error that it raises, or None for no answer at all.
    """

    capacity_tokens = 100
    needs_folder = True

    def __init__(self, name="http://a"):
        self.name = name
        self.version = None
        self.hold_after = None
        self.failures = {}
        self.requests = []
        self.log = []
        self.num_tokens = 0
        self.num_running = self.most_running = 0
        self.is_paused = False

    async def _do(self, method):
        self.log.append(method)
        if method in self.failures:
            error = self.failures[method]
            if error is None:
                await asyncio.Event().wait()
            raise error

    async def generate(self, request):
        self.requests.append(request)
        self.num_running += 1
        self.most_running = max(self.most_running, self.num_running)
        try:
            return await self._generate(request)
        finally:
            self.num_running -= 1

    async def _generate(self, request):
        version, ids, first = self.version, [], len(request.prompt_ids)
        reason = FinishReason.LENGTH
        while len(ids) < request.max_new_tokens and reason is FinishReason.LENGTH:
            await self._do("generate")
            await asyncio.sleep(0.001)
            if self.is_paused:
                reason = FinishReason.ABORT
            elif self.hold_after is None or len(ids) < self.hold_after:
                ids.append(10 + first + len(ids))
                self.num_tokens += 1
                if ids[-1] == STOP:
                    reason = FinishReason.STOP
        return Completion(
            ids=ids,
            logprobs=[-version - (token - 10) / 1000 for token in ids],
            versions=[version] * len(ids),
            finish_reason=reason,
        )

    async def pause(self):
        await self._do("pause")
        self.is_paused = True

    async def update_weights(self, folder, version):
        await self._do("update_weights")
        assert (folder / "config.json").is_file()
        self.version = version

    async def resume(self):
        await self._do("resume")
        self.is_paused = False
        self.hold_after = None

    async def close(self):
        await self._do("close")


@pytest.fixture
def fake_server():
    """Make servers of replies in this process."""
    return FakeServer


@pytest.fixture
def lost_error():
    return LostServerError


@pytest.fixture
def ask():
    """Make requests."""

    def make(sequence_id=0, *, prompt=(5, 6), max_new_tokens=10, temperature=0.7, seed=7):
        return Request(
            sequence_id=sequence_id,
            prompt_ids=list(prompt),
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=seed,
        )

    return make


class JsonServer:
    """Answers on a real socket: `answers` gives, per path, (status, values), or a function of the
    body that does; what came in is in `asked`."""

    def __init__(self):
        self.answers = {}
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def handle(self):
                # Clients that break off are what some tests are about.
                with suppress(OSError):
                    super().handle()

            def do_GET(self):
                self._answer(None)

            def do_POST(self):
                content = self.rfile.read(int(self.headers.get("content-length") or 0))
                self._answer(json.loads(content) if content else None)

            def _answer(self, body):
                outer.asked.append((self.path, body))
                answer = outer.answers.get(self.path, (404, {"error": "no such path"}))
                status, values = answer(body) if callable(answer) else answer
                content = values if isinstance(values, bytes) else json.dumps(values).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def json_server():
    server = JsonServer()
    yield server
    server.close()


@pytest.fixture
def completions():
    """The answer of a server of completions."""

    def make(ids, logprobs, *, finish_reason="length"):
        return {
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "token_ids": list(ids),
                    "logprobs": {"token_logprobs": list(logprobs)},
                }
            ]
        }

    return make


@pytest.fixture
def model_list():
    return 200, {"data": [{"id": "policy", "max_model_len": 700}]}
