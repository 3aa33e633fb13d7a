import asyncio
import threading
import time
from dataclasses import replace

import pytest
from earl_trainer.rollout.engine import FinishReason
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.openai_http import (
    OpenAiServer,
    ServedModel,
    ServerSettings,
    completion_body,
    parse_completion,
    read_model,
)
from earl_trainer.serving.server import ReplyServer
from earl_trainer.types import RunFailedError

SETTINGS = ServerSettings(
    stop_ids=frozenset({4, 2}), update_timeout_s=5.0, assumed_capacity_tokens=900
)
MODEL = ServedModel(name="policy", max_context_tokens=700)


def with_server(url, work):
    async def main():
        server = OpenAiServer(JsonClient(url, timeout_s=5.0), SETTINGS, MODEL)
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(main())


def test_the_law_is_that_of_the_whole_vocabulary_at_the_temperature(ask):
    body = completion_body(ask(temperature=0.7, seed=2**63 + 5), "policy", frozenset({4, 2}))
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0.7, 1.0, -1)
    # What is left out would be that of the model folder's `generation_config.json`.
    assert (body["min_p"], body["repetition_penalty"]) == (0.0, 1.0)
    assert body["seed"] == 5, "signed 64 bits"
    assert (body["stop_token_ids"], body["ignore_eos"]) == ([2, 4], True)
    assert (body["prompt"], body["max_tokens"], body["model"]) == ([5, 6], 10, "policy")
    own = replace(ask(), stop_ids=frozenset({8}))
    assert completion_body(own, "policy", frozenset({4}))["stop_token_ids"] == [8]


def test_a_reply_has_the_ids_and_log_probs_that_the_server_tells(ask, json_server, completions):
    json_server.answers = {"/v1/completions": (200, completions([8, 4], [-0.25, -1.5]))}
    reply = with_server(json_server.url, lambda server: server.generate(ask()))
    assert (list(reply.ids), list(reply.logprobs)) == ([8, 4], [-0.25, -1.5])
    assert list(reply.versions) == [0, 0]
    assert json_server.asked[0][1]["return_token_ids"] is True


@pytest.mark.parametrize(
    "damage",
    [
        lambda choice: choice.pop("token_ids"),
        lambda choice: choice.update(logprobs=None),
        lambda choice: choice["logprobs"]["token_logprobs"].pop(),
    ],
)
def test_a_server_that_does_not_tell_ids_or_log_probs_is_refused(completions, damage):
    answer = completions([8, 4], [-0.25, -1.5])
    damage(answer["choices"][0])
    with pytest.raises(RunFailedError, match="http://x does not return the id and log-prob"):
        parse_completion(answer, name="http://x", version=0)


def test_one_that_was_aborted_before_its_first_token_has_none(completions):
    answer = completions([], [], finish_reason="abort")
    answer["choices"][0]["logprobs"] = None
    reply = parse_completion(answer, name="http://x", version=3)
    assert (list(reply.ids), reply.finish_reason) == ([], FinishReason.ABORT)


def test_the_model_is_the_first_that_is_served(json_server, model_list):
    json_server.answers = {"/v1/models": model_list}

    async def read():
        client = JsonClient(json_server.url, timeout_s=5.0)
        try:
            return await read_model(client)
        finally:
            await client.close()

    assert asyncio.run(read()) == MODEL
    json_server.answers = {"/v1/models": (200, {"data": []})}
    with pytest.raises(RunFailedError, match="serves no model"):
        asyncio.run(read())


def test_versions_are_taken_as_long_as_their_weights_are_the_first_ones(json_server, tmp_path):
    first, same, other = tmp_path / "0", tmp_path / "1", tmp_path / "2"
    for folder, content in ((first, b"w"), (same, b"w"), (other, b"v")):
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(content)

    async def main(server):
        await server.update_weights(first, 0)
        await server.update_weights(same, 1)
        with pytest.raises(RunFailedError, match=r"takes no weights.*version 2"):
            await server.update_weights(other, 2)

    with_server(json_server.url, main)


def test_a_pause_breaks_replies_off_at_once(ask, json_server):
    asked, answered = threading.Event(), threading.Event()

    def answer(body):
        asked.set()
        answered.wait(5.0)
        return 200, {}

    json_server.answers = {"/v1/completions": answer}

    async def main(server):
        running = asyncio.ensure_future(server.generate(ask()))
        await asyncio.to_thread(asked.wait, 5.0)
        start_s = time.monotonic()
        await server.pause()
        reply = await running
        assert time.monotonic() - start_s < 2.0
        return reply

    reply = with_server(json_server.url, main)
    answered.set()
    assert (reply.ids, reply.finish_reason) == ((), FinishReason.ABORT)


def test_it_is_a_server_that_holds_what_it_is_thought_to(json_server):
    server = OpenAiServer(JsonClient(json_server.url, timeout_s=5.0), SETTINGS, MODEL)
    assert isinstance(server, ReplyServer)
    assert (server.capacity_tokens, server.name) == (900, json_server.url)
