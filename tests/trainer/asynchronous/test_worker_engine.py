"""Which engine a worker plays with."""

import copy
import time
from dataclasses import replace

import pytest
import torch
from earl_trainer.asynchronous import worker_engine
from earl_trainer.asynchronous.weights import pack_weights
from earl_trainer.asynchronous.worker import RolloutWorker
from earl_trainer.asynchronous.worker_engine import (
    WorkerEngine,
    make_streaming_engine,
    weights_device,
)
from earl_trainer.models.tiny import build_model
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.rollout.starts import grouped_starts
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
def with_vllm(make_settings):
    """Make settings of a worker that generates with vLLM."""

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
    with_vllm, tiny_model, tiny_chat, way, reads_files, monkeypatch
):
    monkeypatch.setattr(worker_engine, "ServedEngine", RecordingEngine)
    settings = replace(with_vllm(vllm_weights=way), num_threads=3)
    engine = make_streaming_engine(settings, tiny_model)
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
    settings = replace(make_settings(), num_workers=2)
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


@pytest.fixture
def large_model(tiny_tokenizer):
    """Of a shape that vLLM's CPU kernels take."""
    return build_model(
        tiny_tokenizer, hidden_size=128, num_layers=1, num_heads=4, max_context_tokens=256, seed=0
    ).eval()


def changed(model, factor):
    other = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(factor)
    return other


def logprobs_under(model, turn):
    ids = torch.tensor([[*turn.prompt_ids, *turn.reply_ids]])
    with torch.no_grad():
        logits = model(ids).logits[0, len(turn.prompt_ids) - 1 : -1]
    return logits.log_softmax(-1).gather(1, ids[0, len(turn.prompt_ids) :, None])[:, 0].tolist()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_worker_plays_on_with_vllm_while_new_weights_come_in_mid_reply(with_vllm, large_model):
    settings = replace(with_vllm(max_reply_tokens=100), blueprint=Blueprint.of(large_model))
    memory = replace(settings.config.selector, memory_bytes=64 * 1024**2)
    settings = replace(settings, config=replace(settings.config, selector=memory))
    models = {version: changed(large_model, 1.0 - 0.05 * version) for version in range(4)}
    starts = grouped_starts(0, step=0, num_episodes=64, group_size=4, num_seats=2)
    worker = RolloutWorker(settings)
    try:
        worker.publish(0, pack_weights(models[0]))
        worker.grant([(n, [each for each in starts if each.group == n]) for n in range(16)])
        for version in range(1, 4):
            end_s = time.monotonic() + 30.0
            while not worker._engine.resident_tokens and time.monotonic() < end_s:
                time.sleep(0.01)
            time.sleep(0.05)
            assert worker.publish(version, pack_weights(models[version])) == version
        groups, end_s = [], time.monotonic() + 60.0
        while len(groups) < 16:
            groups += worker.take(0.1).groups
            assert time.monotonic() < end_s
    finally:
        worker._engine.close()
    turns = [turn for group in groups for each in group.episodes for turn in each.turns]
    assert all(list(turn.versions) == sorted(turn.versions) for turn in turns)
    mixed = [turn for turn in turns if len(set(turn.versions)) > 1]
    assert mixed
    for turn in [*mixed[:20], *turns[:20]]:
        under = {version: logprobs_under(models[version], turn) for version in set(turn.versions)}
        expected = [under[version][place] for place, version in enumerate(turn.versions)]
        assert list(turn.logprobs) == pytest.approx(expected, abs=1e-3)
