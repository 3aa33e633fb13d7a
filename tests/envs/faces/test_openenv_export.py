"""Games in OpenEnv: served for real where it is installed."""

import sys

import pytest
from earl_envs.faces.openenv_export import openenv_classes


class TakesOne:
    """Always takes one stone."""

    def move(self, game, state, seat, rng):
        return 0


def test_without_openenv_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "openenv", None)
    monkeypatch.setitem(sys.modules, "openenv.core.env_server.types", None)
    with pytest.raises(ImportError, match="pip install openenv"):
        openenv_classes("faces/LastStone-v0")


@pytest.fixture
def classes():
    pytest.importorskip("openenv")
    return openenv_classes("faces/LastStone-v0", stones=3, opponent=TakesOne())


def test_an_episode(classes):
    environment, action, _ = classes
    env = environment()
    start = env.reset(seed=0, episode_id="first")
    assert start.message.endswith("3 stones")
    assert (start.done, start.reward) == (False, None)
    assert start.metadata["messages"][0]["role"] == "system"
    middle = env.step(action(message="[1]"))
    assert (middle.message, middle.done, middle.reward) == ("1 stones", False, 0.0)
    end = env.step(action(message="[1]"))
    assert (end.done, end.reward) == (True, 1.0)
    assert end.metadata["returns"] == [1.0, -1.0]
    assert end.metadata["end_reason"] == "finished"
    assert (env.state.episode_id, env.state.step_count) == ("first", 2)
    with pytest.raises(ValueError, match="the episode is over"):
        env.step(action(message="[1]"))
    with pytest.raises(ValueError, match="takes no option 'split'"):
        env.reset(split="test")


def test_its_server_serves_sessions_side_by_side(classes):
    from fastapi.testclient import TestClient
    from openenv.core.env_server import create_fastapi_app

    environment, action, observation = classes
    app = create_fastapi_app(environment, action, observation, max_concurrent_envs=4)
    with TestClient(app) as client, client.websocket_connect("/ws") as first:
        first.send_json({"type": "reset", "data": {"seed": 1}})
        assert first.receive_json()["data"]["observation"]["message"].endswith("3 stones")
        with client.websocket_connect("/ws") as second:
            second.send_json({"type": "reset", "data": {"seed": 1}})
            second.receive_json()
            second.send_json({"type": "step", "data": {"message": "nothing"}})
            data = second.receive_json()["data"]
            assert (data["done"], data["reward"]) == (True, -1.0)
        first.send_json({"type": "step", "data": {"message": "[1]"}})
        data = first.receive_json()["data"]
        assert (data["observation"]["message"], data["done"]) == ("1 stones", False)
