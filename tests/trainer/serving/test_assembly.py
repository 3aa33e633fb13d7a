import pytest
from earl_trainer.config import RolloutConfig, RunConfig
from earl_trainer.serving.assembly import make_served_engine, servers_of_worker


def test_every_server_belongs_to_one_worker():
    urls = [f"http://{n}" for n in range(5)]
    shares = [servers_of_worker(urls, worker, num_workers=2) for worker in range(2)]
    assert shares == [["http://0", "http://2", "http://4"], ["http://1", "http://3"]]


def test_the_engine_is_that_of_the_config(
    json_server, model_list, completions, ask, tiny_model, tmp_path
):
    json_server.answers = {
        "/v1/models": model_list,
        "/v1/completions": (200, completions([8, 4], [-0.25, -1.5], finish_reason="stop")),
    }
    rollout = RolloutConfig(
        engine="openai",
        servers=(json_server.url,),
        server_kind="openai",
        weights_dir=str(tmp_path),
        max_context_tokens=64,
    )
    engine = make_served_engine(
        RunConfig(rollout=rollout),
        tiny_model,
        rollout.servers,
        stop_ids=frozenset({4}),
        capacity_tokens=321,
    )
    try:
        engine.load_weights(5)
        assert len(list(tmp_path.iterdir())) == 1, "the weights' folder"
        (reply,) = engine.generate([ask()])
        assert (list(reply.ids), list(reply.versions)) == ([8, 4], [5, 5])
        assert engine.capacity_tokens == 321
        with pytest.raises(ValueError, match="it may have 64"):
            engine.submit(ask(max_new_tokens=63))
    finally:
        engine.close()
    (body,) = [body for path, body in json_server.asked if path == "/v1/completions"]
    assert body["stop_token_ids"] == [4]
