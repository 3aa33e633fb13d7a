"""SGLang's documented exchange, spoken by a server on a real socket."""

import asyncio
import threading
from dataclasses import replace

import pytest
from earl_trainer.rollout.engine import FinishReason
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.openai_http import ServerSettings
from earl_trainer.serving.server import LostServerError, ReplyServer
from earl_trainer.serving.sglang_http import SglangServer, read_capacity
from earl_trainer.types import RunFailedError

SETTINGS = ServerSettings(
    stop_ids=frozenset({4, 2}), update_timeout_s=5.0, assumed_capacity_tokens=1
)


class Sglang:
    """Emits three tokens of a reply, then waits for its end; keeps requests while it is paused."""

    def __init__(self, server):
        self.weights = ("start", None)
        self.emitted = threading.Event()
        self.paused, self.going_on = threading.Event(), threading.Event()
        self.going_on.set()
        server.answers = {
            "/generate": self.generate,
            "/pause_generation": self.pause,
            "/continue_generation": self.go_on,
            "/update_weights_from_disk": self.update,
        }

    def generate(self, body):
        self.going_on.wait(10.0)
        wanted = body["sampling_params"]["max_new_tokens"]
        ids = [20 + place for place in range(min(3, wanted))]
        reason = {"type": "length", "length": wanted}
        if wanted > 3:
            self.emitted.set()
            self.paused.wait(10.0)
            reason = {"type": "abort", "message": "Abort in pause"}
        return 200, {
            "text": "",
            "output_ids": ids[:-1],
            "meta_info": {
                "finish_reason": reason,
                "output_token_logprobs": [[-0.5, token, None] for token in ids],
            },
        }

    def pause(self, body):
        assert body == {"mode": "abort"}
        self.going_on.clear()
        self.paused.set()
        return 200, {"message": "Generation paused successfully.", "status": "ok"}

    def go_on(self, body):
        assert body == {}
        self.paused.clear()
        self.going_on.set()
        return 200, {"message": "Generation continued successfully.", "status": "ok"}

    def update(self, body):
        if not self.paused.is_set():
            return 400, {"success": False, "message": "busy"}
        self.weights = (body["model_path"], body["weight_version"])
        return 200, {"success": True, "message": "Succeeded to update model weights."}


def with_server(url, work):
    async def main():
        server = SglangServer(JsonClient(url, timeout_s=10.0), SETTINGS, capacity_tokens=640)
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(main())


def test_a_reply_takes_its_ids_from_the_log_probs(ask, json_server):
    Sglang(json_server)
    request = ask(max_new_tokens=2, seed=2**31 + 9)
    reply = with_server(json_server.url, lambda server: server.generate(request))
    assert (list(reply.ids), list(reply.logprobs)) == ([20, 21], [-0.5, -0.5])
    assert reply.finish_reason is FinishReason.LENGTH
    path, body = json_server.asked[0]
    assert (path, body["input_ids"], body["return_logprob"]) == ("/generate", [5, 6], True)
    sampling = body["sampling_params"]
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"]) == (0.7, 1.0, -1)
    assert (sampling["min_p"], sampling["repetition_penalty"]) == (0.0, 1.0)
    assert (sampling["frequency_penalty"], sampling["presence_penalty"]) == (0.0, 0.0)
    assert (sampling["stop_token_ids"], sampling["sampling_seed"]) == ([2, 4], 9)
    assert not sampling.get("ignore_eos"), "SGLang would not see the stop tokens either"
    own = replace(request, stop_ids=frozenset({8}))
    with_server(json_server.url, lambda server: server.generate(own))
    assert json_server.asked[1][1]["sampling_params"]["stop_token_ids"] == [8]


def test_new_weights_in_mid_reply(ask, json_server, tmp_path):
    sglang = Sglang(json_server)

    async def main(server):
        assert isinstance(server, ReplyServer)
        assert server.capacity_tokens == 640
        running = asyncio.ensure_future(server.generate(ask()))
        await asyncio.to_thread(sglang.emitted.wait, 5.0)
        await server.pause()
        first = await running
        await server.update_weights(tmp_path, 1)
        await server.resume()
        return first, await server.generate(ask(max_new_tokens=2))

    first, second = with_server(json_server.url, main)
    assert (list(first.ids), first.finish_reason) == ([20, 21, 22], FinishReason.ABORT)
    assert (list(first.versions), list(second.versions)) == ([0, 0, 0], [1, 1])
    assert sglang.weights == (str(tmp_path), "1")
    (update,) = [body for path, body in json_server.asked if path == "/update_weights_from_disk"]
    assert update["flush_cache"] is True


def test_weights_that_are_refused_are_an_error_with_what_the_server_says(json_server, tmp_path):
    json_server.answers = {
        "/update_weights_from_disk": (200, {"success": False, "message": "no\nsuch folder"})
    }

    async def main(server):
        with pytest.raises(LostServerError, match=r"127.*: no such folder"):
            await server.update_weights(tmp_path, 1)

    with_server(json_server.url, main)


def test_one_that_was_aborted_before_its_first_token_has_none(ask, json_server):
    json_server.answers = {"/generate": (200, {"meta_info": {"finish_reason": {"type": "abort"}}})}
    reply = with_server(json_server.url, lambda server: server.generate(ask()))
    assert (list(reply.ids), reply.finish_reason) == ([], FinishReason.ABORT)
    json_server.answers = {"/generate": (200, {"meta_info": {"finish_reason": {"type": "stop"}}})}
    with pytest.raises(RunFailedError, match="does not return the log-prob"):
        with_server(json_server.url, lambda server: server.generate(ask()))


@pytest.mark.parametrize(
    "info",
    [
        {"max_total_num_tokens": 4321},
        {"internal_states": [{"memory_usage": {"token_capacity": 4321}}]},
    ],
)
def test_it_tells_how_much_it_holds_in_either_way(json_server, info):
    json_server.answers = {"/get_server_info": (200, info)}

    async def read():
        client = JsonClient(json_server.url, timeout_s=5.0)
        try:
            return await read_capacity(client)
        finally:
            await client.close()

    assert asyncio.run(read()) == 4321
    json_server.answers = {"/get_server_info": (200, {})}
    with pytest.raises(RunFailedError, match="does not tell how many tokens"):
        asyncio.run(read())
