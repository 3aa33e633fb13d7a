import asyncio
import socket
import time

import pytest
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.server import LostServerError
from earl_trainer.types import RunFailedError


def call(url, work, *, timeout_s=10.0):
    async def main():
        client = JsonClient(url, timeout_s=timeout_s)
        try:
            return await work(client)
        finally:
            await client.close()

    return asyncio.run(main())


def test_what_is_sent_and_what_is_answered_is_json(json_server):
    json_server.answers = {"/a?b=1": lambda body: (200, {"twice": 2 * body["x"]}), "/c": (200, b"")}
    answer = call(json_server.url + "/", lambda client: client.post("/a?b=1", {"x": 21}))
    assert answer == {"twice": 42}
    assert call(json_server.url, lambda client: client.get("/c")) is None
    assert json_server.asked == [("/a?b=1", {"x": 21}), ("/c", None)]


def test_what_a_server_fails_is_a_loss_and_what_it_refuses_is_an_error(json_server):
    json_server.answers = {"/fail": (500, {"error": "dead"}), "/refuse": (400, {"error": "bad"})}
    with pytest.raises(LostServerError, match=r"127.*/fail with 500: .*dead"):
        call(json_server.url, lambda client: client.post("/fail"))
    with pytest.raises(RunFailedError, match=r"/refuse with 400: .*bad") as caught:
        call(json_server.url, lambda client: client.post("/refuse"))
    assert not isinstance(caught.value, LostServerError)


def test_nobody_there_is_a_loss_with_the_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LostServerError, match=f"127.0.0.1:{port} does not answer"):
        call(f"http://127.0.0.1:{port}", lambda client: client.get("/"))


def test_a_server_that_says_nothing_is_lost_after_the_timeout(json_server):
    json_server.answers = {"/slow": lambda body: time.sleep(1.0) or (200, {})}
    start_s = time.monotonic()
    with pytest.raises(LostServerError, match=r"does not answer within 0.2 s"):
        call(json_server.url, lambda client: client.post("/slow", timeout_s=0.2))
    assert time.monotonic() - start_s < 0.9


def test_a_client_that_was_closed_connects_again_from_another_loop(json_server):
    json_server.answers = {"/a": (200, 1)}
    client = JsonClient(json_server.url, timeout_s=5.0)

    async def use():
        try:
            return await client.get("/a")
        finally:
            await client.close()

    assert [asyncio.run(use()), asyncio.run(use())] == [1, 1]


def test_the_proxy_of_the_environment_is_not_asked(json_server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    json_server.answers = {"/a": (200, 1)}
    assert call(json_server.url, lambda client: client.get("/a")) == 1


def test_what_is_no_json_is_an_error(json_server):
    json_server.answers = {"/a": (200, b"<html>")}
    with pytest.raises(RunFailedError, match="/a with what is no JSON"):
        call(json_server.url, lambda client: client.get("/a"))
