"""An endpoint, played by a server on the loopback interface."""

import contextlib
import json
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from earl_envs import EndReason, ParseFailure, RandomOpponent, make_game
from earl_envs.evaluation.match import play_match
from earl_envs.evaluation.play import Seating, play_games
from earl_envs.opponents.asking import ask_each
from earl_envs.opponents.endpoint import EndpointError, EndpointOpponent, NoLegalMoveError

ID = "earl/TicTacToe-v0"
GAME = make_game(ID)
STATE = (0b000_010_000, 0b000_000_001)


@dataclass
class Server:
    """Answers with one function and remembers what it was asked."""

    url: str = ""
    answer: Callable[[BaseHTTPRequestHandler, int], None] = lambda handler, place: None
    bodies: list[dict] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)

    def say(self, *replies: str | None) -> None:
        """Give these contents in turn, the last one for ever."""

        def answer(handler, place):
            say(handler, replies[min(place, len(replies) - 1)])

        self.answer = answer

    def play(self, *, delay_s: float = 0.0) -> None:
        """Take a free cell that depends on board and seed alone."""

        def answer(handler, place):
            time.sleep(delay_s)
            free = [c for c in handler.body["messages"][1]["content"] if c.isdigit()]
            say(handler, f"[{free[handler.body['seed'] % len(free)]}]")

        self.answer = answer


def send(handler, body: bytes, *, status: int = 200, length: int | None = None) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    handler.end_headers()
    handler.wfile.write(body)


def say(handler, content: str | None) -> None:
    send(handler, json.dumps({"choices": [{"message": {"content": content}}]}).encode())


class ManyCallers(ThreadingHTTPServer):
    request_queue_size = 64
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.bodies.append(self.body)
            state.paths.append(self.path)
            state.keys.append(self.headers["Authorization"])
            with contextlib.suppress(OSError):  # the client may have gone
                state.answer(self, len(state.bodies) - 1)

        def log_message(self, *arguments):
            pass

    with ManyCallers(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{http.server_address[1]}/v1"
        yield state
        http.shutdown()
        thread.join()


def ask(server: Server, seed: int = 0, **options) -> int:
    opponent = EndpointOpponent(server.url, model="m", **options)
    return opponent.move(GAME, STATE, 0, np.random.default_rng(seed))


def test_the_move_of_the_reply_is_played(server):
    server.say("<think>[2]?</think> I take [9].")
    assert ask(server) == 8


def test_a_spec_names_address_and_model(server):
    server.say("[9]")
    opponent = EndpointOpponent.from_text(f"{server.url}/#some/model")
    assert opponent.move(GAME, STATE, 0, np.random.default_rng(0)) == 8
    assert server.paths == ["/v1/chat/completions"]
    assert server.bodies[0]["model"] == "some/model"


def test_it_is_told_the_rules_and_the_board_from_its_own_seat(server):
    server.say("[9]")
    ask(server)
    system, user = server.bodies[0]["messages"]
    assert system == {"role": "system", "content": GAME.rules()}
    assert user == {"role": "user", "content": GAME.text(STATE, 0)}
    assert "temperature" not in server.bodies[0]
    ask(server, temperature=0.5)
    assert server.bodies[1]["temperature"] == 0.5


def test_seeds_come_from_the_stream_of_chance(server):
    server.say("no idea", "[9]")
    ask(server, seed=3)
    server.say("[9]")
    ask(server, seed=3)
    seeds = [body["seed"] for body in server.bodies]
    assert seeds[0] == seeds[2]
    assert seeds[0] != seeds[1]


def test_time_limit_is_of_the_whole_request_headers_too(server):
    def trickle(handler, place):
        for _ in range(40):
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n" if place else b"H")
            handler.wfile.flush()
            time.sleep(0.1)

    server.answer = trickle
    start_s = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer within 0\.3 s"):
        ask(server, timeout_s=0.3)
    assert time.monotonic() - start_s < 2


@pytest.mark.parametrize("reply", ["no idea", "[5]", "[99]", "", None, "\x00\ud83d" * 50])
def test_replies_without_a_legal_move_are_asked_for_again(server, reply):
    server.say(reply, reply, "[9]")
    assert ask(server) == 8
    assert len(server.bodies) == 3


@pytest.mark.parametrize(
    ("last", "failure", "detail"),
    [
        ("[5]", ParseFailure.ILLEGAL, r"'\[5\]' is not legal now$"),
        ("no idea", ParseFailure.UNPARSABLE, "no complete .*$"),
        (None, ParseFailure.UNPARSABLE, "no complete .*$"),
    ],
)
def test_after_too_many_such_replies_it_says_what_was_wrong_with_the_last(
    server, last, failure, detail
):
    server.say("[77]", last)
    with pytest.raises(
        NoLegalMoveError, match=f"^m named no legal move in 2 replies: {detail}"
    ) as e:
        ask(server, num_retries=1)
    assert isinstance(e.value, EndpointError)
    assert e.value.failure is failure
    assert len(server.bodies) == 2
    copy = pickle.loads(pickle.dumps(e.value))
    assert (str(copy), copy.failure) == (str(e.value), failure)


def test_a_model_that_writes_garbage_loses_its_matches(server):
    server.say("no idea")
    opponent = EndpointOpponent(server.url, model="m", num_retries=0)
    match = play_match(ID, opponent, "random", num_games=6, seed=0)
    assert (match.total.losses, match.total.score, match.num_excluded) == (6, 0.0, 0)
    assert match.faults["EndpointOpponent"] == {EndReason.UNPARSABLE: 6}


def test_a_server_that_fails_loses_nothing(server):
    server.answer = lambda handler, place: send(handler, b"broken", status=500)
    with pytest.raises(ValueError, match=r"every pair of games failed.*answered 500"):
        play_match(ID, EndpointOpponent(server.url, model="m"), "random", num_games=2, seed=0)


def test_many_moves_take_as_long_as_one(server):
    server.play(delay_s=0.05)

    def answers(**options):
        opponent = EndpointOpponent(server.url, model="m", **options)
        start_s = time.monotonic()
        moves = ask_each(
            [opponent] * 8,
            lambda place: opponent.move(GAME, STATE, 0, np.random.default_rng(place)),
        )
        return moves, time.monotonic() - start_s

    at_once, at_once_s = answers()
    one_by_one, one_by_one_s = answers(max_concurrent_moves=1)
    assert at_once == one_by_one
    assert len(set(at_once)) > 2
    assert one_by_one_s >= 8 * 0.05
    assert at_once_s < one_by_one_s / 2


def test_a_match_is_the_same_however_many_are_asked_at_a_time(server):
    server.play()

    def played(limit):
        model = EndpointOpponent(server.url, model="m", max_concurrent_moves=limit)
        plan = [Seating(episode=i, game_seed=i, players=("m", "r")) for i in range(6)]
        return play_games(ID, {"m": model, "r": RandomOpponent()}, plan, seed=1)

    games = played(32)
    assert games == played(1)
    assert {game.end_reason for game in games} == {EndReason.FINISHED}
    assert len({tuple(game.game.moves) for game in games}) == 6


def test_the_key_comes_from_the_environment_or_the_caller(server, monkeypatch):
    server.say("[9]")
    ask(server)
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    ask(server)
    ask(server, api_key="other\n")
    assert server.keys == [None, "Bearer secret", "Bearer other"]


def test_a_redirect_is_not_followed(server):
    def redirect(handler, place):
        handler.send_response(307)
        handler.send_header("Location", f"{server.url}/elsewhere")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    server.answer = redirect
    with pytest.raises(EndpointError, match="answered 307: "):
        ask(server, api_key="secret")
    assert server.paths == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b"[" * 100_000,
    ],
)
def test_garbage_is_an_error_of_one_short_line(server, body):
    server.answer = lambda handler, place: send(handler, body)
    with pytest.raises(EndpointError, match="answered") as caught:
        ask(server)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)
    assert len(server.bodies) == 1  # a broken server is not asked again


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_error_statuses_are_named(server, status):
    server.answer = lambda handler, place: send(handler, b"broken", status=status)
    with pytest.raises(EndpointError, match=f"answered {status}: "):
        ask(server)


def test_a_server_that_says_nothing_is_left_in_time(server):
    server.answer = lambda handler, place: time.sleep(1.5)
    start_s = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer within 0\.2 s"):
        ask(server, timeout_s=0.2)
    assert time.monotonic() - start_s < 1.2


def test_a_server_that_drips_is_left_in_time(server):
    def drip(handler, place):
        send(handler, b"", length=1000)
        for _ in range(40):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            time.sleep(0.05)

    server.answer = drip
    start_s = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer within 0\.3 s"):
        ask(server, timeout_s=0.3)
    assert time.monotonic() - start_s < 1.2


def test_an_endless_answer_is_cut(server):
    def pour(handler, place):
        send(handler, b"", length=2**30)
        while True:
            handler.wfile.write(b" " * 2**18)

    server.answer = pour
    with pytest.raises(EndpointError, match="the answer is longer than"):
        ask(server)


def test_a_connection_that_breaks_off_is_an_error(server):
    server.answer = lambda handler, place: handler.connection.close()
    with pytest.raises(EndpointError, match="failed: "):
        ask(server)


def test_nobody_there_is_an_error():
    opponent = EndpointOpponent("http://127.0.0.1:9/v1", model="m", timeout_s=2)
    with pytest.raises(EndpointError, match="failed: "):
        opponent.move(GAME, STATE, 0, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("ftp://host/v1", {}, "an endpoint is an address such as"),
        ("file:///etc/passwd", {}, "an endpoint is an address such as"),
        ("http://host:80000/v1", {}, "an endpoint is an address such as"),
        ("http://host:port/v1", {}, "an endpoint is an address such as"),
        ("http://:8000/v1", {}, "an endpoint is an address such as"),
        ("http://[::1/v1", {}, "an endpoint is an address such as"),
        ("http://host /v1", {}, "an endpoint is an address such as"),
        (" http://host/v1", {}, "an endpoint is an address such as"),
        ("http://host/v1\n", {}, "an endpoint is an address such as"),
        ("http://host/v1", {"timeout_s": 1e300}, r"timeout_s must be <= 9.22337e\+09, got 1e\+300"),
        ("http://host/v1", {"model": ""}, "an endpoint needs the name of a model"),
        ("http://host/v1", {"timeout_s": 0}, "timeout_s must be > 0, got 0"),
        ("http://host/v1", {"num_retries": -1}, "num_retries must be >= 0, got -1"),
        ("http://host/v1", {"max_concurrent_moves": 0}, "max_concurrent_moves must be >= 1, got 0"),
    ],
)
def test_bad_options_are_refused(url, options, message):
    with pytest.raises(ValueError, match=message):
        EndpointOpponent(url, **({"model": "m"} | options))
