"""The exchange with `vllm serve`: with one that is not there, then with a real one on loopback.

One server serves all tests of the second part in order; the last ends it.
"""

import asyncio
import copy
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress

import pytest
import torch
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.rollout.weights_folder import WeightsFolder
from earl_trainer.serving.connect import connect_servers
from earl_trainer.serving.http import JsonClient
from earl_trainer.serving.openai_http import ServedModel, ServerSettings
from earl_trainer.serving.served_engine import ServedEngine
from earl_trainer.serving.server import LostServerError, ReplyServer
from earl_trainer.serving.vllm_http import VllmServer
from earl_trainer.types import RunFailedError
from transformers import LlamaConfig, LlamaForCausalLM

NUM_VOCAB = 64
STOP_IDS = frozenset({2, 3, 4})
MAX_CONTEXT_TOKENS = 700
NUM_BLOCKS = 256
BLOCK_TOKENS = 32
KV_BYTES_PER_TOKEN = 2 * 2 * 2 * 32 * 4
MAX_DIFFERENCE = 1e-3
SETTINGS = ServerSettings(stop_ids=STOP_IDS, update_timeout_s=30.0, assumed_capacity_tokens=1)


def with_server(url, work):
    async def main():
        model = ServedModel(name="policy", max_context_tokens=None)
        server = VllmServer(JsonClient(url, timeout_s=10.0), SETTINGS, model, capacity_tokens=640)
        try:
            return await work(server)
        finally:
            await server.close()

    return asyncio.run(main())


def test_new_weights_are_read_and_caches_dropped_between_a_pause_and_its_end(
    ask, json_server, completions, tmp_path
):
    asked, paused = threading.Event(), threading.Event()

    def complete(body):
        asked.set()
        paused.wait(5.0)
        return 200, completions([9, 8], [-1.0, -2.0], finish_reason="abort")

    json_server.answers = {
        "/v1/completions": complete,
        "/pause?mode=abort": lambda body: paused.set() or (200, {"status": "paused"}),
        "/collective_rpc": (200, {"results": [None]}),
        "/reset_prefix_cache": (200, {"success": True}),
        "/resume": (200, {"status": "resumed"}),
    }

    async def main(server):
        assert isinstance(server, ReplyServer)
        running = asyncio.ensure_future(server.generate(ask()))
        await asyncio.to_thread(asked.wait, 5.0)
        await server.pause()
        first = await running
        await server.update_weights(tmp_path, 1)
        await server.resume()
        return first, await server.generate(ask())

    first, second = with_server(json_server.url, main)
    assert (list(first.ids), first.finish_reason) == ([9, 8], FinishReason.ABORT)
    assert (list(first.versions), list(second.versions)) == ([0, 0], [1, 1])
    paths = [path for path, _ in json_server.asked if path not in {"/v1/completions"}]
    assert list(dict.fromkeys(paths)) == [
        "/pause?mode=abort", "/collective_rpc", "/reset_prefix_cache", "/resume",
    ]  # fmt: skip
    (reload,) = [body for path, body in json_server.asked if path == "/collective_rpc"]
    assert reload == {"method": "reload_weights", "kwargs": {"weights_path": str(tmp_path)}}


def test_caches_that_are_not_dropped_are_an_error(json_server, tmp_path):
    json_server.answers = {
        "/collective_rpc": (200, {"results": [None]}),
        "/reset_prefix_cache": (200, {"success": False}),
    }

    async def main(server):
        with pytest.raises(LostServerError, match="did not forget what it cached"):
            await server.update_weights(tmp_path, 1)

    with_server(json_server.url, main)


@pytest.fixture(scope="module")
def model():
    """Small, but of a shape that vLLM's CPU kernels take, with shared heads and a tied output."""
    config = LlamaConfig(
        vocab_size=NUM_VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
        tie_word_embeddings=True, initializer_range=0.15,
        bos_token_id=None, eos_token_id=4, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return LlamaForCausalLM(config).eval()


def wait_for_server(url, process, log):
    deadline_s = time.monotonic() + 300.0
    while time.monotonic() < deadline_s:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5.0):
                return
        except OSError:
            time.sleep(0.2)
    raise TimeoutError(log.read_text()[-2000:])


@pytest.fixture(scope="module")
def process(model, tmp_path_factory):
    """A server that was started with weights of its own."""
    other = copy.deepcopy(model)
    change_weights(other, seed=99)
    weights, log = WeightsFolder(other), tmp_path_factory.mktemp("vllm") / "log"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        # What `vllm serve` starts; that command itself asks for the metadata of a package `vllm`,
        # which the build for CPUs does not have.
        sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry",
        "--model", str(weights.write()), "--host", "127.0.0.1", "--port", str(port),
        "--skip-tokenizer-init", "--generation-config", "vllm", "--dtype", "float32",
        "--max-model-len", str(MAX_CONTEXT_TOKENS), "--block-size", str(BLOCK_TOKENS),
        "--kv-cache-memory-bytes", str(NUM_BLOCKS * BLOCK_TOKENS * KV_BYTES_PER_TOKEN),
        "--logprobs-mode", "processed_logprobs", "--enforce-eager", "--no-enable-chunked-prefill",
    ]  # fmt: skip
    variables = {
        "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1",
    }  # fmt: skip
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=os.environ | variables, stdout=output, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    process.url = f"http://127.0.0.1:{port}"
    try:
        wait_for_server(process.url, process, log)
        yield process
    finally:
        end(process)
        weights.close()


def end(process):
    """End a server and the processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30.0)


def make_engine(process, model, *, kind="vllm", stop_ids=STOP_IDS):
    settings = ServerSettings(stop_ids=stop_ids, update_timeout_s=30.0, assumed_capacity_tokens=5)
    servers = connect_servers(
        [process.url],
        kind,
        settings,
        max_context_tokens=MAX_CONTEXT_TOKENS,
        generate_timeout_s=60.0,
    )
    return ServedEngine(
        model, servers, stop_ids=stop_ids, max_context_tokens=MAX_CONTEXT_TOKENS, timeout_s=30.0
    )


@pytest.fixture(scope="module")
def engine(process, model):
    engine = make_engine(process, model)
    engine.load_weights(0)
    yield engine
    engine.close()


def change_weights(model, *, seed):
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=rng))


def make_requests(num, *, temperature, max_new_tokens=24, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [
        Request(
            sequence_id=place,
            # Longer than a block of the cache, so that it would be found again.
            prompt_ids=torch.randint(5, NUM_VOCAB, (40 + place,), generator=rng).tolist(),
            max_new_tokens=max_new_tokens,
            temperature=temperature,
            seed=2**63 + 1000 * seed + place,
        )
        for place in range(num)
    ]


@torch.no_grad()
def token_logprobs(model, request, ids):
    logits = model(torch.tensor([[*request.prompt_ids, *ids]])).logits[0]
    law = (logits[len(request.prompt_ids) - 1 : -1] / (request.temperature or 1.0)).log_softmax(-1)
    return law.gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()


def assert_greedy_replies_agree(model, requests, replies, *, stop_ids=STOP_IDS):
    embedded = TransformersEngine(model, stop_ids=stop_ids, capacity_tokens=1 << 20)
    expected = embedded.generate(requests)
    num_equal = sum(
        list(one.ids) == list(other.ids) for one, other in zip(replies, expected, strict=True)
    )
    # Two tokens that are as good may be told apart by the last bit.
    assert num_equal >= len(requests) - 1
    for request, reply in zip(requests, replies, strict=True):
        wanted = token_logprobs(model, request, list(reply.ids))
        assert list(reply.logprobs) == pytest.approx(wanted, abs=MAX_DIFFERENCE)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_greedy_replies_are_those_of_the_embedded_engine(engine, model):
    assert engine.capacity_tokens == (NUM_BLOCKS - 1) * BLOCK_TOKENS
    requests = make_requests(16, temperature=0.0)
    replies = engine.generate(requests)
    assert_greedy_replies_agree(model, requests, replies)
    assert {FinishReason.STOP, FinishReason.LENGTH} == {each.finish_reason for each in replies}
    for reply in replies:
        assert (reply.ids[-1] in STOP_IDS) == (reply.finish_reason is FinishReason.STOP)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_log_probs_are_those_of_the_law_that_was_sampled(engine, model, temperature):
    requests = make_requests(8, temperature=temperature, seed=1)
    for request, reply in zip(requests, engine.generate(requests), strict=True):
        wanted = token_logprobs(model, request, list(reply.ids))
        assert list(reply.logprobs) == pytest.approx(wanted, abs=MAX_DIFFERENCE)


@pytest.mark.slow
def test_a_seed_fixes_the_reply_whatever_is_asked_for_beside_it(engine):
    requests = make_requests(8, temperature=1.0, seed=2)
    together = [list(each.ids) for each in engine.generate(requests)]
    assert list(engine.generate([requests[3]])[0].ids) == together[3]
    assert [list(each.ids) for each in engine.generate(requests[::-1])] == together[::-1]


@pytest.mark.slow
def test_more_prompts_than_one_pass_reads_are_answered(engine):
    # vLLM reads 2,048 tokens in a pass, unless it is told otherwise.
    requests = make_requests(80, temperature=1.0, max_new_tokens=2, seed=8)
    assert sum(len(request.prompt_ids) for request in requests) > 2 * 2048
    assert all(reply.ids for reply in engine.generate(requests))


@pytest.mark.slow
def test_completions_alone_give_the_same_replies_and_take_no_weights(process, engine, model):
    requests = make_requests(4, temperature=1.0, seed=3)
    expected = [list(each.ids) for each in engine.generate(requests)]
    fixed, other = make_engine(process, model, kind="openai"), copy.deepcopy(model)
    fixed.load_weights(0)
    assert [list(each.ids) for each in fixed.generate(requests)] == expected
    fixed.load_weights(1)
    fixed.close()
    changing = make_engine(process, other, kind="openai")
    changing.load_weights(0)
    change_weights(other, seed=1)
    with pytest.raises(RunFailedError, match="takes no weights"):
        changing.load_weights(1)
    changing.close()


def replies_over_a_change(served, model, requests, *, version, delay_s):
    """Change the weights after so long a time of generating; return all replies."""
    for request in requests:
        served.submit(request)
    time.sleep(delay_s)
    change_weights(model, seed=version)
    served.load_weights(version)
    ended = {}
    deadline_s = time.monotonic() + 120.0
    while len(ended) < len(requests):
        ended |= served.advance()
        assert time.monotonic() < deadline_s
    for request in requests:
        served.release(request.sequence_id)
    return [ended[request.sequence_id] for request in requests]


@pytest.mark.slow
def test_new_weights_in_mid_reply_speak_from_the_next_token_on(process, model, engine):
    new = copy.deepcopy(model)
    served = make_engine(process, new, stop_ids=frozenset())
    served.load_weights(0)
    requests = make_requests(8, temperature=1.0, max_new_tokens=500, seed=4)
    # How long it takes to begin, and then to end, is the machine's.
    for version, delay_s in enumerate((0.2, 0.3, 0.5, 0.8, 1.2, 2.0), start=1):
        old = copy.deepcopy(new)
        replies = replies_over_a_change(served, new, requests, version=version, delay_s=delay_s)
        nums_old = [list(reply.versions).count(version - 1) for reply in replies]
        for request, reply, num_old in zip(requests, replies, nums_old, strict=True):
            ids, versions = list(reply.ids), list(reply.versions)
            assert len(ids) == len(reply.logprobs) == len(versions) == 500
            assert versions == [version - 1] * num_old + [version] * (500 - num_old)
            before = token_logprobs(old, request, ids)[:num_old]
            after = token_logprobs(new, request, ids)[num_old:]
            assert list(reply.logprobs) == pytest.approx([*before, *after], abs=MAX_DIFFERENCE)
        if any(0 < num_old < 500 for num_old in nums_old):
            break
    else:
        pytest.fail("no change of weights came in mid-reply")
    # Prompts whose keys and values the old weights had left in the cache.
    greedy = make_requests(8, temperature=0.0, max_new_tokens=20, seed=4)
    followed = served.generate(greedy)
    assert_greedy_replies_agree(new, greedy, followed, stop_ids=frozenset())
    served.close()


@pytest.mark.slow
def test_an_interrupt_ends_all_replies_with_what_there_is(process, model):
    engine = make_engine(process, model, stop_ids=frozenset())
    engine.load_weights(0)
    requests = make_requests(8, temperature=1.0, max_new_tokens=600, seed=6)
    timer = threading.Timer(0.5, engine.interrupt)
    timer.start()
    replies = engine.generate(requests)
    timer.join()
    aborted = [reply for reply in replies if reply.finish_reason is FinishReason.ABORT]
    assert any(reply.ids for reply in aborted)
    assert all(len(reply.ids) == len(reply.logprobs) < 600 for reply in aborted)
    assert all(len(reply.ids) == 600 for reply in replies if reply not in aborted)
    again = engine.generate(make_requests(2, temperature=0.0, max_new_tokens=4))
    assert all(len(reply.ids) == 4 for reply in again)
    engine.close()


@pytest.mark.slow
def test_weights_that_are_not_there_are_an_error_with_the_name(process, model):
    engine = make_engine(process, model)
    engine.load_weights(0)
    engine._weights.close()
    engine._weights.write = lambda: engine._weights.latest
    with pytest.raises(RunFailedError, match=f"{process.url} has not taken over the weights of"):
        engine.load_weights(1)
    assert engine.version == 0
    engine.close()


@pytest.mark.slow
def test_a_killed_server_ends_the_run_with_its_name_and_soon(process, model):
    engine = make_engine(process, model, stop_ids=frozenset())
    engine.load_weights(2)
    for request in make_requests(8, temperature=1.0, max_new_tokens=600, seed=7):
        engine.submit(request)
    time.sleep(0.2)
    start_s = time.monotonic()
    end(process)

    def advance_for_long():
        while time.monotonic() < start_s + 20.0:
            engine.advance()

    with pytest.raises(RunFailedError, match=f"{process.url}.*no server is left"):
        advance_for_long()
    assert time.monotonic() < start_s + 10.0
    with pytest.raises(RunFailedError):
        engine.load_weights(3)
    assert engine.version == 2
    engine.close()
