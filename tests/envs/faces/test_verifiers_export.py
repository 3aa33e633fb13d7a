"""Games in verifiers: played for real where it is installed, by a model that is a fake."""

import asyncio
import json
import sys
import threading
import types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from earl_envs.end_reason import EndReason
from earl_envs.faces import verifiers_export
from earl_envs.faces.verifiers_export import verifiers_classes
from earl_envs.registry import make_game
from earl_envs.text.chat_env import ChatEnv


def test_without_verifiers_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", None)
    monkeypatch.setitem(sys.modules, "verifiers.v1", None)
    with pytest.raises(ImportError, match="pip install verifiers"):
        verifiers_classes("faces/LastStone-v0")


class Talk:
    """An agent's side of a game: its replies in order, then the end of its run."""

    def __init__(self, replies, errors=()):
        self.replies = [*replies]
        self.trace = types.SimpleNamespace(
            errors=[*errors], stop_condition="max_turns", info={}, rewards={}
        )
        self.trace.record_reward = lambda name, value, weight: self.trace.rewards.update({
            name: value * weight
        })

    async def turn(self, message):
        if not self.replies:
            return types.SimpleNamespace(terminated=True)
        return types.SimpleNamespace(terminated=False, last_reply=self.replies.pop(0))


@pytest.mark.parametrize(
    ("errors", "reason"),
    [((), EndReason.MOVE_LIMIT), (("no server",), EndReason.OPPONENT_ERROR)],
)
def test_a_run_that_stops_ends_the_game_without_a_winner(errors, reason):
    chat = ChatEnv(make_game("faces/LastStone-v0"))
    chat.reset(seed=0)
    talks = {0: Talk(["[3]"], errors), 1: Talk(["[3]"])}
    while not chat.done:
        asyncio.run(verifiers_export._ask(chat, talks[chat.seat]))
    verifiers_export._report(chat, talks)
    assert [talk.trace.rewards for talk in talks.values()] == [{"score": 0.0}] * 2
    assert talks[1].trace.info["end_reason"] == reason
    assert talks[1].trace.info["detail"] == "player_0 stopped: max_turns"
    assert talks[0].trace.info["moves"] == [2, 2]


class FakeModel(BaseHTTPRequestHandler):
    """Streams the reply [1] to every chat completion."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        chunks = [
            {"delta": {"role": "assistant", "content": "[1]"}, "finish_reason": None},
            {"delta": {}, "finish_reason": "stop"},
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for chunk in chunks:
            event = {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 0,
                "model": "fake",
                "choices": [{"index": 0, **chunk}],
            }
            self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args):
        pass


@pytest.fixture
def model_url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), FakeModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()


def load_package(monkeypatch, name, **kwargs):
    taskset, env = verifiers_classes("faces/LastStone-v0", stones=4, **kwargs)
    module = types.ModuleType(name)
    module.__dict__.update(Taskset=taskset, Env=env, __all__=["Env", "Taskset"])
    module.__spec__ = None
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.slow
@pytest.mark.parametrize("opponent", [None, "random"])
def test_verifiers_plays_a_game(monkeypatch, model_url, opponent):
    loaders = pytest.importorskip("verifiers.v1.utils.loaders")
    from verifiers.v1.clients import ModelContext
    from verifiers.v1.configs.client import EvalClientConfig

    name = f"earl_test_{opponent}".lower()
    load_package(monkeypatch, name, opponent=opponent)
    monkeypatch.setenv("FAKE_KEY", "x")
    config_class = loaders.environment_class(name)
    config = config_class.__orig_bases__[0].__args__[0](taskset={"id": name})
    env = loaders.load_environment(config)
    context = ModelContext(
        model="fake", client=EvalClientConfig(base_url=model_url, api_key_var="FAKE_KEY")
    )

    async def play():
        async with env.serving():
            return await env.run_episode(next(iter(env.taskset)), context)

    episode = asyncio.run(play())
    assert episode.ok, episode.errors
    traces = {trace.info["seat"]: trace for trace in episode.traces}
    info = traces[0].info
    assert info["end_reason"] == "finished"
    if opponent is None:
        assert info["moves"] == [0, 0, 0, 0]
        assert [traces[seat].rewards["score"].score for seat in (0, 1)] == [-1.0, 1.0]
    else:
        assert list(traces) == [0]
        assert traces[0].rewards["score"].score == info["returns"][0]
