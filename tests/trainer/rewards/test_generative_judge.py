"""A judge behind a server on this machine."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from earl_trainer.rewards.generative_judge import DEFAULT_TEMPLATE, GenerativeJudge, parse_score
from earl_trainer.rewards.outcome import RewardFailure


@pytest.mark.parametrize(
    ("reply", "score"),
    [
        ("Score: 7", 0.7),
        ("I think of score: 3, but no.\n**Score:** 10", 1.0),
        ("score = 2.5", 0.25),
        ("Score: 11", None),
        ("Score: -1", None),
        ("seven", None),
        ("", None),
    ],
)
def test_the_last_score_counts(reply, score):
    assert parse_score(reply) == score


class Endpoint:
    """Marks a conversation by the number that it ends with; what is in `odd` it answers so."""

    def __init__(self):
        self.requests, self.headers, self.odd = [], [], {}
        self.num_running = self.most_running = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append((self.path, body))
                outer.headers.append(self.headers.get("Authorization"))
                outer.num_running += 1
                outer.most_running = max(outer.most_running, outer.num_running)
                try:
                    self._answer(body["messages"][0]["content"].rsplit(" ", 1)[-1])
                finally:
                    outer.num_running -= 1

            def _answer(self, number):
                time.sleep(0.02)
                answer = outer.odd.get(
                    number, {"choices": [{"message": {"content": f"Score: {number}"}}]}
                )
                if answer is None:
                    time.sleep(1.5)
                    return
                status, text = answer if isinstance(answer, tuple) else (200, json.dumps(answer))
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def endpoint():
    served = Endpoint()
    yield served
    served.close()


@pytest.fixture
def open_judge(endpoint):
    judges = []

    def open_(**options):
        options = {"timeout_s": 10.0, "max_concurrent": 4, **options}
        judges.append(
            GenerativeJudge(
                endpoint.url,
                model="judge-1",
                weight=2.0,
                template=DEFAULT_TEMPLATE,
                decode=lambda ids: f"told {ids[-1]}",
                **options,
            )
        )
        return judges[-1]

    yield open_
    for judge in judges:
        judge.close()


@pytest.fixture
def ending_with(make_episode, make_turn):
    return lambda *ends: [make_episode(turns=[make_turn([1, 2], [end])]) for end in ends]


def test_every_episode_gets_the_mark_of_its_own_conversation(
    endpoint, open_judge, ending_with, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", " secret ")
    found = open_judge().score(ending_with(*range(9)))
    assert [each.value for each in found] == pytest.approx([n / 10 for n in range(9)])
    assert endpoint.most_running <= 4
    path, body = endpoint.requests[0]
    assert path == "/v1/chat/completions"
    assert body["model"] == "judge-1"
    told = {each["messages"][0]["content"] for _, each in endpoint.requests}
    assert told == {DEFAULT_TEMPLATE.replace("{conversation}", f"told {n}") for n in range(9)}
    assert set(endpoint.headers) == {"Bearer secret"}


def test_what_goes_wrong_fails_its_own_episode_alone(endpoint, open_judge, ending_with):
    endpoint.odd = {
        "1": None,
        "2": (500, "full"),
        "3": (400, "too long"),
        "4": {"choices": []},
        "5": (200, "no JSON"),
        "6": {"choices": [{"message": {"content": "good"}}]},
    }
    judge = open_judge(timeout_s=0.7)
    found = judge.score(ending_with(*range(8)))
    assert [each.value for each in found] == [0.0, *(None,) * 6, 0.7]
    failures = [each.failure for each in found[1:7]]
    assert failures[0] in (RewardFailure.TIMEOUT, RewardFailure.ERROR)
    assert failures[1:] == [RewardFailure.ERROR] * 5
    assert "does not answer" in found[1].detail or "no answer" in found[1].detail
    assert "500" in found[2].detail
    assert "no score from 0 to 10 in 'good'" in found[6].detail
    # And the next ones are marked as ever.
    assert judge.score(ending_with(9))[0].value == 0.9
