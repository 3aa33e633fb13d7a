"""What is asked of vLLM and what becomes of its answers, with an engine that only remembers."""

import asyncio
import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from earl_selector import DeviceSpec, MemoryModel, ModelShape
from earl_trainer.rollout import vllm_library
from earl_trainer.rollout.background_loop import BackgroundLoop
from earl_trainer.rollout.engine import FinishReason, Request
from earl_trainer.rollout.vllm_configuration import LostVllmError, VllmConfiguration
from earl_trainer.rollout.vllm_pool import Configuration
from earl_trainer.rollout.vllm_settings import VllmSettings, VllmTimeouts
from earl_trainer.types import RunFailedError

FOLDER = Path("weights")


class DeadError(Exception):
    pass


class FakeVllm:
    """Replies to a prompt with its ids plus one, each with its own id as log-prob."""

    def __init__(self):
        self.calls, self.aborted, self.errored = [], set(), False
        self.failure = None
        self.blocks = False
        self.forgets = True
        self.engine_core = SimpleNamespace(
            resources=SimpleNamespace(
                engine_manager=SimpleNamespace(processes=[]),
                ctx=SimpleNamespace(destroy=lambda linger: self.calls.append(("destroy", linger))),
            )
        )
        self.vllm_config = SimpleNamespace(
            cache_config=SimpleNamespace(num_gpu_blocks=5, block_size=32),
            model_config=SimpleNamespace(max_model_len=96),
        )

    async def generate(self, prompt, parameters, key):
        if self.failure is not None:
            raise self.failure
        while self.blocks and key not in self.aborted:
            await asyncio.sleep(0.01)
        aborted = key in self.aborted
        ids = [token + 1 for token in prompt[: 1 if aborted else None]]
        yield SimpleNamespace(
            outputs=[
                SimpleNamespace(
                    token_ids=ids,
                    logprobs=[{token: SimpleNamespace(logprob=-float(token))} for token in ids],
                    finish_reason="abort" if aborted else parameters,
                )
            ],
            prompt_logprobs=[
                None,
                *({token: SimpleNamespace(logprob=-float(token))} for token in prompt[1:]),
            ],
        )

    async def abort(self, keys):
        # The first time it has not heard of them yet.
        if ("abort",) in self.calls:
            self.aborted |= set(keys)
        self.calls.append(("abort",))

    async def collective_rpc(self, method, kwargs):
        self.calls.append((method, kwargs["weights_path"]))

    async def reset_prefix_cache(self):
        self.calls.append(("reset_prefix_cache",))
        return self.forgets

    async def sleep(self, level):
        self.calls.append(("sleep", level))

    async def wake_up(self, tags):
        self.calls.append(("wake_up", *tags))

    def shutdown(self, timeout):
        self.calls.append(("shutdown",))


@pytest.fixture
def fake(monkeypatch):
    fake = FakeVllm()

    async def start(arguments):
        fake.calls.append(("start", arguments["tensor_parallel_size"]))
        if fake.failure is not None:
            raise fake.failure
        return fake

    monkeypatch.setattr(vllm_library, "start", start)
    monkeypatch.setattr(vllm_library, "can_sleep", lambda: False)
    monkeypatch.setattr(vllm_library, "lost_errors", lambda: (DeadError, ConnectionError))
    monkeypatch.setattr(vllm_library, "prompt", list)
    monkeypatch.setattr(vllm_library, "scoring_parameters", lambda: "length")
    monkeypatch.setattr(
        vllm_library,
        "reply_parameters",
        lambda request, stop_ids: "stop" if request.prompt_ids[-1] + 1 in stop_ids else "length",
    )
    return fake


@pytest.fixture
def start(fake, tiny_model):
    memory = MemoryModel(
        shape=ModelShape.from_config(tiny_model.config.to_dict()), device=DeviceSpec.cpu(1 << 20),
        bytes_per_parameter=4, bytes_per_kv_value=4, utilisation=1.0, reserve_bytes=0,
    )  # fmt: skip
    settings = VllmSettings(
        memory=memory, stop_ids=frozenset({9}), max_context_tokens=96, num_threads=1,
        dtype=torch.float32, timeouts=VllmTimeouts(start_s=5.0, generate_s=0.5, call_s=5.0),
    )  # fmt: skip
    loop, made = BackgroundLoop(), []

    def make():
        made.append(VllmConfiguration(settings, loop, tp=2, folder=FOLDER))
        return made[-1]

    yield make
    for each in made:
        each.close()
    loop.close()


def ask(*prompt_ids):
    return Request(sequence_id=0, prompt_ids=prompt_ids, max_new_tokens=4, temperature=1.0, seed=0)


def generate(configuration, requests, *, interrupted=None):
    return configuration.generate(requests, version=3, interrupted=interrupted or threading.Event())


def test_it_is_a_configuration_with_the_size_that_vllm_found(start):
    configuration = start()
    assert isinstance(configuration, Configuration)
    assert configuration.size.capacity_tokens == 4 * 32
    assert configuration.size.max_context_tokens == 96


def test_replies_come_in_order_with_log_probs_version_and_reason(start):
    first, second = generate(start(), [ask(1, 2), ask(8)])
    assert (first.ids, first.logprobs, first.versions) == ([2, 3], [-2.0, -3.0], [3, 3])
    assert (first.finish_reason, second.finish_reason) == (FinishReason.LENGTH, FinishReason.STOP)


def test_an_interrupt_is_repeated_until_vllm_has_heard_of_every_request(fake, start):
    fake.blocks = True
    interrupted = threading.Event()
    interrupted.set()
    replies = generate(start(), [ask(1, 2), ask(5, 6)], interrupted=interrupted)
    assert [(each.ids, each.finish_reason) for each in replies] == [
        ([2], FinishReason.ABORT), ([6], FinishReason.ABORT),
    ]  # fmt: skip


def test_scores_are_those_of_every_token_but_the_first(start):
    assert start().score([[1, 2, 3], [7, 8]]) == [[-2.0, -3.0], [-8.0]]


def test_new_weights_are_loaded_before_the_cache_is_forgotten(fake, start):
    configuration = start()
    configuration.load(FOLDER)
    assert fake.calls[-2:] == [("reload_weights", "weights"), ("reset_prefix_cache",)]


def test_a_cache_that_is_not_forgotten_ends_the_run(fake, start):
    fake.forgets = False
    with pytest.raises(RunFailedError, match="did not forget"):
        start().load(FOLDER)


def test_weights_have_memory_and_are_loaded_before_the_cache_gets_its_own(fake, start):
    configuration = start()
    configuration.sleep()
    configuration.wake(FOLDER)
    assert fake.calls[1:] == [
        ("sleep", 2), ("wake_up", "weights"), ("reload_weights", "weights"),
        ("wake_up", "kv_cache"), ("reset_prefix_cache",),
    ]  # fmt: skip


@pytest.mark.parametrize(("failure", "message", "is_lost"), [
    (DeadError("core"), "vLLM's processes at tp 2 are gone", True),
    (KeyError("odd\n thing"), r"vLLM at tp 2: 'odd\\n thing'", False),
])  # fmt: skip
def test_what_vllm_raises_becomes_one_line(fake, start, failure, message, is_lost):
    configuration = start()
    fake.failure = failure
    with pytest.raises(RunFailedError, match=message) as error:
        generate(configuration, [ask(1)])
    assert isinstance(error.value, LostVllmError) == is_lost, "who is lost may be started anew"


def test_replies_that_do_not_come_are_not_waited_for_for_ever(fake, start):
    configuration = start()
    fake.blocks = True
    with pytest.raises(LostVllmError, match=r"vLLM at tp 2: no answer within 0\.5 s"):
        generate(configuration, [ask(1)])


@pytest.mark.parametrize(("failure", "kind"), [
    (ValueError("heads\n  and tp"), ValueError),
    (RuntimeError("no\n start"), RunFailedError),
    (TimeoutError("late"), RunFailedError),
])  # fmt: skip
def test_a_failed_start_says_in_one_line_at_which_degree(fake, start, failure, kind):
    fake.failure = failure
    expected = " ".join(str(failure).split())
    with pytest.raises(kind, match=f"at tp 2: {expected}"):
        start()


def test_processes_that_are_starting_yet_end_with_ctrl_c(start, monkeypatch):
    started = []

    async def start_slowly(arguments):
        child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
        child.start()
        started.append(child)
        await asyncio.sleep(600)

    def press_ctrl_c():
        end_s = time.monotonic() + 60
        while not started and time.monotonic() < end_s:
            time.sleep(0.05)
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGINT)

    before = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    before.start()
    monkeypatch.setattr(vllm_library, "start", start_slowly)
    presser = threading.Thread(target=press_ctrl_c)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
        presser.join()
        assert not Path(f"/proc/{started[0].pid}").exists()
        assert before.is_alive(), "who was there before is none of them"
    finally:
        before.kill()
        before.join()


def test_close_shuts_vllm_down(fake, start):
    configuration = start()
    configuration.close()
    assert fake.calls[-2:] == [("shutdown",), ("destroy", 0)]
    assert configuration.pids == []
