"""What a run on servers cannot do is refused before anything starts."""

import re
import socket

import pytest
from earl_trainer.rules import check_config


@pytest.fixture
def served(small_config, json_server, model_list):
    """A run on a server that answers."""
    json_server.answers = {"/v1/models": model_list}

    def make(*overrides, num_servers=1, **rollout):
        servers = tuple(f"{json_server.url}/{n}" for n in range(num_servers))
        for url in servers:
            json_server.answers[f"{url.removeprefix(json_server.url)}/v1/models"] = model_list
        base = {"rollout": {"engine": "openai", "servers": servers} | rollout}
        return small_config(base, *overrides)

    return make


AHEAD = {"max_staleness": 2}
FIXED = {"learner": {"lr": 0.0}, "warmup": {"num_steps": 0}}


def test_what_fits_is_accepted(served, tmp_path):
    check_config(served())
    check_config(served(weights_dir=str(tmp_path)))
    check_config(served(AHEAD, {"asynchronous": {"num_workers": 2}}, num_servers=2))
    check_config(served(FIXED, server_kind="openai"))


@pytest.mark.parametrize(
    ("overrides", "rollout", "message"),
    [
        ({}, {"servers": ()}, "generates on rollout.servers, which must name one, got none"),
        ({}, {"servers": ("host:80",)}, "addresses such as http://host:8000, got 'host:80'"),
        ({}, {"servers": ("http://a", "http://a")}, "rollout.servers must differ, got http://a, "),
        ({}, {"engine": "transformers"}, "are those of rollout.engine openai, got 'transformers'"),
        ({}, {"weights_dir": "/no/such"}, "rollout.weights_dir must be a folder, got '/no/such'"),
        ({"rollout_workers": 2}, {}, "with rollout.engine openai rollout_workers must be 1, got 2"),
        ({"selector": {"num_devices": 2}}, {}, "selector.num_devices must be 1, got 2"),
        (
            AHEAD | {"asynchronous": {"num_workers": 2}},
            {},
            "asynchronous.num_workers must be at most the 1 of rollout.servers, got 2",
        ),
        (
            {},
            {"server_kind": "openai"},
            "as it is served: learner.lr must be 0, got 0.001",
        ),
        ({"learner": {"lr": 0.0}}, {"server_kind": "openai"}, "warmup.lr must be 0, got 0.002"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_rule(served, overrides, rollout, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        check_config(served(overrides, **rollout))


def test_a_server_that_does_not_answer_is_refused_by_name(served):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(ValueError, match=f"rollout.servers: {gone} does not answer"):
        check_config(served(servers=(gone,)))
