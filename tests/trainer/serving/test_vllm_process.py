"""An interruptible vLLM: its states with an engine that emits when told to, then the real one.

One start serves all tests of the real one, in order: it is killed last.
"""

import asyncio
import copy
import os
import signal
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.rollout import vllm_library
from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.rollout.vllm_settings import VllmSettings, VllmTimeouts
from earl_trainer.rollout.weights_folder import WeightsFolder
from earl_trainer.serving.server import LostServerError, ReplyServer
from earl_trainer.serving.vllm_process import VllmProcess
from earl_trainer.serving.weight_paths import FolderPath, TensorPath
from transformers import LlamaConfig, LlamaForCausalLM

NUM_VOCAB = 64
STOP_IDS = frozenset()
"""Replies are as long as they may be."""
MAX_DIFFERENCE = 1e-3
"""Of log-probs in float32, whose sums the two engines take in other orders."""
WAIT_S = 280.0


@pytest.fixture(scope="module")
def model():
    """Small, but of a shape that vLLM's CPU kernels take, with a tied output."""
    config = LlamaConfig(
        vocab_size=NUM_VOCAB, hidden_size=128, intermediate_size=256, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
        tie_word_embeddings=True, initializer_range=0.15,
        bos_token_id=None, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        return LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def settings(model):
    fields = {
        "shape": ModelShape.from_config(model.config.to_dict()),
        "bytes_per_parameter": 4,
        "bytes_per_kv_value": 4,
        "utilisation": 1.0,
        "reserve_bytes": 0,
    }
    weights_bytes = MemoryModel(device=DeviceSpec.cpu(1), **fields).weights_bytes(1)
    return VllmSettings(
        memory=MemoryModel(device=DeviceSpec.cpu(weights_bytes + 4096 * 1024), **fields),
        stop_ids=STOP_IDS, max_context_tokens=700, num_threads=1, dtype=torch.float32,
        timeouts=VllmTimeouts(start_s=270.0, generate_s=20.0, call_s=20.0),
    )  # fmt: skip


@pytest.fixture(scope="module")
def folder(model):
    folder = WeightsFolder(model)
    yield folder
    folder.close()


class EitherPath:
    """vLLM is started for tensors; a test says by which way weights come."""

    def __init__(self, tensors):
        self.current = tensors

    def arguments(self):
        return self.current.arguments()

    async def open(self, engine, *, tp):
        await self.current.open(engine, tp=tp)

    @property
    def needs_folder(self):
        return self.current.needs_folder

    async def send(self, engine, folder):
        await self.current.send(engine, folder)


@pytest.fixture(scope="module")
def path(model):
    return EitherPath(TensorPath(model, timeout_s=20.0))


@pytest.fixture(scope="module")
def run():
    loop = BackgroundLoop()
    yield lambda work: loop.run(work, timeout_s=WAIT_S)
    loop.close()


@pytest.fixture(scope="module")
def server(settings, path, run, folder):
    server = VllmProcess(settings, path)
    run(server.update_weights(folder.write(), 0))
    yield server
    run(server.close())


def ask(*, prompt_ids=(5, 6, 7), max_new_tokens=10, temperature=1.0, seed=0):
    return Request(
        sequence_id=0, prompt_ids=prompt_ids, max_new_tokens=max_new_tokens,
        temperature=temperature, seed=seed,
    )  # fmt: skip


def change_weights(model, *, seed):
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=rng))


async def answer(server, request, interruptions):
    """Answer a request, submitted anew with what there is whenever it is broken off.

    `interruptions` are coroutine functions that break it off, each once.
    """
    ids, logprobs, versions = [], [], []
    while True:
        reply = asyncio.ensure_future(
            server.generate(
                replace(
                    request,
                    prompt_ids=[*request.prompt_ids, *ids],
                    max_new_tokens=request.max_new_tokens - len(ids),
                    seed=request.seed + len(ids),
                )
            )
        )
        if interruptions:
            await interruptions.pop(0)()
        part = await reply
        ids += part.ids
        logprobs += part.logprobs
        versions += part.versions
        if part.finish_reason is not FinishReason.ABORT:
            return ids, logprobs, versions


class FakeLlm:
    """Emits token 7 to whoever asks, as often as a test says; what it is asked for on the way to it
    is not known to it yet."""

    def __init__(self):
        self.version, self.paused, self.errored = "none", False, False
        self.calls, self.known, self.tokens_to_emit = [], {}, 0
        self.travel_s, self.forgets, self.failure = 0.0, True, None
        self.blocked_in = None
        self.engine_core = SimpleNamespace(
            resources=SimpleNamespace(ctx=SimpleNamespace(destroy=lambda linger: None))
        )
        self.vllm_config = SimpleNamespace(
            cache_config=SimpleNamespace(num_gpu_blocks=5, block_size=32)
        )

    async def _note(self, *call):
        self.calls.append(call)
        while self.blocked_in == call[0]:
            await asyncio.sleep(0.01)
        if self.failure == call[0]:
            raise OSError("it\n failed")

    async def generate(self, prompt, parameters, key):
        await asyncio.sleep(self.travel_s)
        emitted = self.known[key] = []
        reason = ""
        while not reason:
            await asyncio.sleep(0.002)
            if key not in self.known:
                reason = "abort"
            elif self.tokens_to_emit and not self.paused:
                self.tokens_to_emit -= 1
                emitted.append(int(self.version))
                reason = "length" if len(emitted) == parameters else ""
        self.known.pop(key, None)
        spans = [
            SimpleNamespace(version=version, start=place, end=place + 1)
            for place, version in enumerate(emitted)
        ]
        reply = SimpleNamespace(
            token_ids=[7] * len(emitted),
            logprobs=[{7: SimpleNamespace(logprob=-0.5)}] * len(emitted),
            finish_reason=reason,
            weight_versions=spans,
        )
        yield SimpleNamespace(outputs=[reply])

    async def pause_generation(self, *, mode, clear_cache):
        await self._note("pause", mode, clear_cache)
        self.paused = True
        self.known.clear()

    async def resume_generation(self):
        await self._note("resume")
        self.paused = False

    async def abort(self, keys):
        for key in keys:
            self.known.pop(key, None)

    async def reset_prefix_cache(self):
        await self._note("reset_prefix_cache")
        return self.forgets

    async def update_weight_version(self, version):
        await self._note("version", version)
        self.version = version

    async def collective_rpc(self, method, kwargs):
        await self._note(method, kwargs["weights_path"])

    def shutdown(self, timeout):
        self.errored = True


@pytest.fixture
def llm(monkeypatch):
    llm = FakeLlm()

    async def start(arguments):
        return llm

    monkeypatch.setattr(vllm_library, "start", start)
    monkeypatch.setattr(vllm_library, "can_sleep", lambda: False)
    monkeypatch.setattr(vllm_library, "lost_errors", lambda: (ConnectionError,))
    monkeypatch.setattr(vllm_library, "prompt", list)
    monkeypatch.setattr(
        vllm_library, "reply_parameters", lambda request, stop_ids: request.max_new_tokens
    )
    return llm


@pytest.fixture
def make(llm, settings, tmp_path):
    """Make one that has version 0, or none, of the fake's weights, with short timeouts."""
    short = replace(settings, timeouts=VllmTimeouts(start_s=5.0, generate_s=0.5, call_s=0.5))

    async def make(*, started=True):
        process = VllmProcess(short, FolderPath())
        if started:
            await process.update_weights(tmp_path, 0)
        return process

    return make


async def until(condition):
    async with asyncio.timeout(5.0):
        while not condition():
            await asyncio.sleep(0.002)


def test_a_reply_broken_off_after_3_of_10_tokens_goes_on_under_the_new_weights(make, llm, tmp_path):
    async def play():
        process = await make()
        request = ask(prompt_ids=(5, 6), max_new_tokens=10)
        before = replace(request)
        llm.tokens_to_emit = 3

        async def interrupt():
            await until(lambda: llm.tokens_to_emit == 0)
            await process.pause()
            await process.update_weights(tmp_path, 1)
            llm.tokens_to_emit = 7
            await process.resume()

        reply = await answer(process, request, [interrupt])
        assert request == before
        return reply

    ids, logprobs, versions = asyncio.run(play())
    assert versions == [0, 0, 0, 1, 1, 1, 1, 1, 1, 1]
    assert len(ids) == len(logprobs) == 10


def test_what_is_asked_for_in_a_pause_begins_after_it(make, llm, tmp_path):
    async def play():
        process = await make()
        llm.tokens_to_emit = 2
        await process.pause()
        reply = asyncio.ensure_future(process.generate(ask(max_new_tokens=2)))
        await asyncio.sleep(0.05)
        assert not reply.done()
        assert not llm.known
        await process.update_weights(tmp_path, 1)
        await process.resume()
        assert (await reply).versions == [1, 1]

    asyncio.run(play())


def test_nothing_is_generated_before_there_are_weights_whatever_else_is_called(make):
    async def play():
        process = await make(started=False)
        await process.pause()
        await process.resume()
        with pytest.raises(RuntimeError, match="before update_weights"):
            await process.generate(ask())

    asyncio.run(play())


def test_a_request_on_its_way_to_vllm_is_ended_by_a_pause_as_well(make, llm):
    async def play():
        process = await make()
        llm.travel_s = 0.1
        reply = asyncio.ensure_future(process.generate(ask()))
        await asyncio.sleep(0.02)
        await process.pause()
        assert reply.done()
        assert (await reply).finish_reason is FinishReason.ABORT

    asyncio.run(play())


def test_weights_in_mid_reply_are_refused(make, llm, tmp_path):
    async def play():
        process = await make()
        reply = asyncio.ensure_future(process.generate(ask(max_new_tokens=1)))
        await until(lambda: llm.known)
        with pytest.raises(RuntimeError, match="pause first, 1 are running"):
            await process.update_weights(tmp_path, 1)
        llm.tokens_to_emit = 1
        assert (await reply).versions == [0]

    asyncio.run(play())


def test_the_version_moves_after_the_weights_and_after_the_caches_are_forgotten(
    make, llm, tmp_path
):
    async def play():
        process = await make()
        await process.pause()
        await process.pause()
        del llm.calls[:]
        await process.update_weights(tmp_path, 1)
        assert llm.paused
        await process.resume()

    asyncio.run(play())
    assert llm.calls == [
        ("reload_weights", str(tmp_path)), ("reset_prefix_cache",), ("version", "1"), ("resume",),
    ]  # fmt: skip


@pytest.mark.parametrize(("place", "why"), [
    ("reload_weights", "vLLM: it failed"),
    ("reset_prefix_cache", "vLLM: it failed"),
    ("kept cache", "did not forget"),
    ("blocked", r"vLLM did not answer within 0\.5 s"),
])  # fmt: skip
def test_an_update_that_fails_leaves_the_version_and_ends_vllm(make, llm, tmp_path, place, why):
    async def play():
        process = await make()
        llm.failure, llm.forgets = place, place != "kept cache"
        llm.blocked_in = "reload_weights" if place == "blocked" else None
        with pytest.raises(LostServerError, match=why):
            await process.update_weights(tmp_path, 1)
        assert llm.version == "0"
        with pytest.raises(LostServerError, match=why):
            await process.generate(ask())

    asyncio.run(play())


def test_an_update_that_is_given_up_ends_vllm_as_well(make, llm, tmp_path):
    async def play():
        process = await make()
        llm.blocked_in = "reload_weights"
        update = asyncio.ensure_future(process.update_weights(tmp_path, 1))
        await until(lambda: ("reload_weights", str(tmp_path)) in llm.calls)
        update.cancel()
        await asyncio.wait([update])
        with pytest.raises(LostServerError, match="CancelledError"):
            await process.generate(ask())

    asyncio.run(play())


def test_vllm_that_does_not_start_is_named_and_not_tried_again(make, monkeypatch, tmp_path):
    async def start(arguments):
        raise OSError("no\n memory")

    async def play():
        process = await make(started=False)
        monkeypatch.setattr(vllm_library, "start", start)
        for _ in range(2):
            with pytest.raises(LostServerError, match="vLLM did not start at tp 1: no memory"):
                await process.update_weights(tmp_path, 0)

    asyncio.run(play())


def test_a_reply_that_does_not_come_is_not_waited_for_for_ever(make):
    async def play():
        process = await make()
        with pytest.raises(LostServerError, match=r"vLLM did not answer within 0\.5 s"):
            await process.generate(ask())

    asyncio.run(play())


def test_a_pause_without_end_is_not_waited_for_either_and_can_still_end(make, llm):
    async def play():
        process = await make()
        await process.pause()
        with pytest.raises(LostServerError, match=r"paused for more than 0\.5 s"):
            await process.generate(ask())
        await process.resume()
        llm.tokens_to_emit = 1
        assert (await process.generate(ask(max_new_tokens=1))).ids == [7]

    asyncio.run(play())


def test_closing_ends_replies_pauses_and_whoever_waits_for_a_resume(make, llm):
    async def play():
        process = await make()
        reply = asyncio.ensure_future(process.generate(ask()))
        await until(lambda: llm.known)
        llm.blocked_in = "pause"
        pause = asyncio.ensure_future(process.pause())
        await until(lambda: ("pause", "abort", True) in llm.calls)
        waiting = asyncio.ensure_future(process.generate(ask()))
        await asyncio.sleep(0.02)
        await process.close()
        await process.close()
        for each in (reply, pause, waiting, process.resume()):
            with pytest.raises(LostServerError, match="vLLM was closed"):
                await asyncio.wait_for(each, 5.0)

    asyncio.run(play())


def test_a_reply_that_nobody_waits_for_any_more_is_aborted(make, llm):
    async def play():
        process = await make()
        reply = asyncio.ensure_future(process.generate(ask()))
        await until(lambda: llm.known)
        reply.cancel()
        await asyncio.sleep(0.05)
        await process.pause()
        assert reply.cancelled()

    asyncio.run(play())


async def until_emitted(server, *, num_tokens):
    states = server._engine.output_processor.request_states
    async with asyncio.timeout(20.0):
        while all(
            each.detokenizer.num_output_tokens() < num_tokens for each in list(states.values())
        ):
            await asyncio.sleep(0.002)


def logprobs_under(model, prompt_ids, reply_ids):
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt_ids, *reply_ids]])).logits[
            0, len(prompt_ids) - 1 : -1
        ]
    return logits.log_softmax(-1).gather(1, torch.tensor(reply_ids)[:, None])[:, 0].tolist()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_replies_run_at_once_and_a_seed_fixes_each(server, run):
    async def play(numbers):
        return await asyncio.gather(*(
            server.generate(ask(prompt_ids=(5, 6 + n), max_new_tokens=30, seed=n)) for n in numbers
        ))  # fmt: skip

    assert isinstance(server, ReplyServer)
    assert server.capacity_tokens == 4096 - 32
    together = run(play(range(16)))
    assert [each.ids for each in run(play([3]))] == [together[3].ids]
    assert {version for each in together for version in each.versions} == {0}


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("way", "version"), [("tensors", 1), ("files", 2)])
def test_a_reply_goes_on_under_new_weights_and_keeps_what_the_old_ones_said(
    server, run, path, folder, model, way, version
):
    path.current = path.current if way == "tensors" else FolderPath()
    assert server.needs_folder == (way == "files")
    old = copy.deepcopy(model)
    # Longer than a block of the cache, which would be found again.
    request = ask(prompt_ids=tuple(range(5, 60)), max_new_tokens=500, seed=version)

    async def interrupt():
        await until_emitted(server, num_tokens=3)
        await server.pause()
        await server.pause()
        change_weights(model, seed=version)
        await server.update_weights(folder.write(), version)
        await server.resume()

    ids, logprobs, versions = run(answer(server, request, [interrupt]))
    num_old = versions.count(version - 1)
    assert 3 <= num_old < 500
    assert versions == [version - 1] * num_old + [version] * (500 - num_old)
    expected = [
        *logprobs_under(old, request.prompt_ids, ids)[:num_old],
        *logprobs_under(model, request.prompt_ids, ids)[num_old:],
    ]
    assert logprobs == pytest.approx(expected, abs=MAX_DIFFERENCE)
    greedy = [ask(prompt_ids=(5, 6 + n), temperature=0.0, max_new_tokens=40) for n in range(4)]
    fresh = TransformersEngine(model, stop_ids=STOP_IDS, capacity_tokens=1 << 20).generate(greedy)

    async def decode():
        return await asyncio.gather(*(server.generate(each) for each in greedy))

    for one, other in zip(run(decode()), fresh, strict=True):
        assert list(one.ids) == list(other.ids)
        assert list(one.logprobs) == pytest.approx(list(other.logprobs), abs=MAX_DIFFERENCE)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_process_is_named_soon_and_closing_takes_no_longer(server, run):
    async def play():
        reply = asyncio.ensure_future(server.generate(ask(max_new_tokens=600)))
        await until_emitted(server, num_tokens=3)
        os.kill(server.pids[-1], signal.SIGKILL)
        start_s = time.monotonic()
        with pytest.raises(LostServerError, match="vLLM's processes are gone"):
            await reply
        with pytest.raises(LostServerError, match="vLLM's processes are gone"):
            await server.pause()
        assert time.monotonic() - start_s < 15.0
        start_s = time.monotonic()
        await server.close()
        assert time.monotonic() - start_s < 5.0
        assert server.pids == []

    run(play())
