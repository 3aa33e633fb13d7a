"""Which engine a worker plays with."""

import sys
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from earl_trainer.asynchronous.worker_engine import (
    WorkerEngine,
    make_streaming_engine,
    weights_device,
)
from earl_trainer.rollout.streaming_engine import StreamingEngine
from earl_trainer.serving import assembly
from earl_trainer.serving.server import ReplyServer
from earl_trainer.serving.vllm_process import VllmProcess


class RecordingEngine(StreamingEngine):
    """Remembers what an engine on servers is made from."""

    def __init__(self, model, servers, **fields):
        super().__init__(model, stop_ids=frozenset(), capacity_tokens=64)
        self.made_of = model, servers, fields


class SilentServer:
    """Is only closed."""

    name, capacity_tokens, needs_folder = "http://x", 1, True

    async def close(self):
        pass

    generate = pause = update_weights = resume = close


@pytest.fixture
def with_vllm(make_settings, monkeypatch):
    """Make settings of a worker that generates with vLLM; what it asks servers with is no more than
    a record."""
    module = ModuleType("earl_trainer.serving.served_engine")
    module.ServedEngine = RecordingEngine
    monkeypatch.setitem(sys.modules, module.__name__, module)

    def make(**fields):
        settings = make_settings(**fields)
        rollout = replace(settings.config.rollout, engine="vllm")
        return replace(settings, config=replace(settings.config, rollout=rollout))

    return make


def test_the_embedded_engine_has_the_workers_limits(make_settings, tiny_model):
    engine = make_streaming_engine(make_settings(), tiny_model)
    assert isinstance(engine, StreamingEngine)
    assert isinstance(engine, WorkerEngine)
    assert engine.capacity_tokens == 4000


@pytest.mark.parametrize(("way", "reads_files"), [("transfer", False), ("disk", True)])
def test_vllm_generates_for_a_worker_as_a_server_of_replies(
    with_vllm, tiny_model, tiny_chat, way, reads_files
):
    engine = make_streaming_engine(with_vllm(vllm_weights=way, num_threads=3), tiny_model)
    model, servers, fields = engine.made_of
    assert model is tiny_model
    (server,) = servers
    assert isinstance(server, VllmProcess)
    assert isinstance(server, ReplyServer)
    assert server.needs_folder, "to be started"
    assert server._path.needs_folder is reads_files
    assert server._settings.num_threads == 3
    assert server._settings.stop_ids == fields["stop_ids"] == tiny_chat.stop_ids
    assert fields["max_context_tokens"] == 200
    assert fields["timeout_s"] > server._settings.timeouts.start_s


def test_a_worker_whose_engine_computes_elsewhere_needs_no_gpu(
    make_settings, with_vllm, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert weights_device(make_settings().config).type == "cuda"
    assert weights_device(with_vllm().config).type == "cpu"


def test_workers_share_the_servers_of_the_run_out(make_settings, tiny_model, monkeypatch):
    asked = []

    def connect(urls, kind, settings, **fields):
        asked.append((list(urls), kind, fields["max_context_tokens"]))
        return [SilentServer()]

    monkeypatch.setattr(assembly, "connect_servers", connect)
    settings = make_settings(num_workers=2)
    servers = tuple(f"http://{n}" for n in range(3))
    rollout = replace(
        settings.config.rollout, engine="openai", servers=servers, server_kind="sglang"
    )
    settings = replace(settings, config=replace(settings.config, rollout=rollout))
    for worker in range(2):
        engine = make_streaming_engine(replace(settings, worker=worker), tiny_model)
        assert isinstance(engine, WorkerEngine)
        engine.close()
    assert asked == [
        (["http://0", "http://2"], "sglang", 200),
        (["http://1"], "sglang", 200),
    ]
    assert weights_device(settings.config).type == "cpu"
