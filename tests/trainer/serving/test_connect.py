import asyncio
import socket

import pytest
from earl_trainer.serving.connect import connect_servers, require_servers
from earl_trainer.serving.openai_http import OpenAiServer, ServerSettings
from earl_trainer.serving.sglang_http import SglangServer
from earl_trainer.serving.vllm_http import VllmServer

SETTINGS = ServerSettings(stop_ids=frozenset({2}), update_timeout_s=5.0, assumed_capacity_tokens=77)
VLLM = {
    "vllm_config": {
        "model_config": {"logprobs_mode": "processed_logprobs"},
        "cache_config": {"num_gpu_blocks": 11, "block_size": 16},
        "device_config": {"device": "cuda"},
        "scheduler_config": {"enable_chunked_prefill": True},
    }
}


def connect(url, kind, *, max_context_tokens=700):
    return connect_servers(
        [url], kind, SETTINGS, max_context_tokens=max_context_tokens, generate_timeout_s=5.0
    )[0]


@pytest.fixture
def url(json_server, model_list):
    json_server.answers = {
        "/v1/models": model_list,
        "/server_info?config_format=json": (200, VLLM),
        "/get_server_info": (200, {"max_total_num_tokens": 500}),
    }
    return json_server.url


@pytest.mark.parametrize(
    ("kind", "made", "capacity_tokens"),
    [("vllm", VllmServer, 160), ("sglang", SglangServer, 500), ("openai", OpenAiServer, 77)],
)
def test_a_server_of_each_kind_tells_what_it_holds(url, kind, made, capacity_tokens):
    server = connect(url, kind)
    assert isinstance(server, made)
    assert (server.capacity_tokens, server.name) == (capacity_tokens, url)


def test_a_server_for_shorter_contexts_is_refused(url):
    with pytest.raises(ValueError, match=r"rollout.servers: .*holds contexts of 700 tokens.* 701"):
        connect(url, "openai", max_context_tokens=701)


def test_vllm_with_log_probs_of_another_law_is_refused(json_server, url):
    other = {"model_config": {"logprobs_mode": "raw_logprobs"}, "cache_config": {}}
    json_server.answers["/server_info?config_format=json"] = (200, {"vllm_config": other})
    with pytest.raises(ValueError, match="--logprobs-mode processed_logprobs, got raw_logprobs"):
        connect(url, "vllm")


def test_vllm_on_a_cpu_that_reads_prompts_in_parts_is_refused(json_server, url):
    config = VLLM["vllm_config"] | {"device_config": {"device": "cpu"}}
    answers = json_server.answers
    answers["/server_info?config_format=json"] = (200, {"vllm_config": config})
    with pytest.raises(ValueError, match="must be started with --no-enable-chunked-prefill"):
        connect(url, "vllm")
    config = config | {"scheduler_config": {"enable_chunked_prefill": False}}
    answers["/server_info?config_format=json"] = (200, {"vllm_config": config})
    assert connect(url, "vllm").capacity_tokens == 160


def test_vllm_that_takes_no_weights_is_refused_with_what_it_lacks(json_server, url):
    del json_server.answers["/server_info?config_format=json"]
    with pytest.raises(ValueError, match="start it with VLLM_SERVER_DEV_MODE=1"):
        connect(url, "vllm")


def test_something_else_that_speaks_http_is_refused(json_server):
    json_server.answers = {"/v1/models": (200, b"<html>")}
    with pytest.raises(ValueError, match=r"rollout\.servers: .* no JSON"):
        require_servers([json_server.url])


def test_servers_that_do_not_answer_are_refused_by_name(url):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{free.getsockname()[1]}"
    require_servers([url])
    with pytest.raises(ValueError, match=f"rollout.servers: {gone} does not answer"):
        require_servers([url, gone])


def test_what_was_asked_at_the_start_does_not_bind_a_server_to_that_loop(
    json_server, url, ask, completions
):
    json_server.answers["/v1/completions"] = (200, completions([5, 2], [-1.0, -2.0]))
    server = connect(url, "openai")

    async def generate():
        try:
            return await server.generate(ask())
        finally:
            await server.close()

    assert list(asyncio.run(generate()).ids) == [5, 2]
