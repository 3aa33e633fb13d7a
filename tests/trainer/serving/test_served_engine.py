"""The engine over servers in this process, whose tokens and log-probs say where they come from."""

import copy
import threading
import time
from contextlib import suppress

import pytest
import torch
from earl_trainer.asynchronous.worker_engine import WorkerEngine
from earl_trainer.rollout.engine import Engine, FinishReason
from earl_trainer.seeding import derive_seed
from earl_trainer.serving.served_engine import ServedEngine
from earl_trainer.types import RunFailedError
from safetensors.torch import load_file

STOP = 99


@pytest.fixture
def make_engine(tiny_model):
    made = []

    def make(*servers, load=True, model=None, **options):
        fields = {"max_context_tokens": 100, "timeout_s": 1.0} | options
        made.append(
            ServedEngine(model or tiny_model, servers, stop_ids=frozenset({STOP}), **fields)
        )
        if load:
            made[-1].load_weights(0)
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def wait_until(condition, timeout_s=10.0):
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.002)


def collect(engine, num, timeout_s=10.0):
    """Advance until so many replies have ended."""
    ended, deadline_s = {}, time.monotonic() + timeout_s
    while len(ended) < num:
        ended |= engine.advance()
        assert time.monotonic() < deadline_s
    return ended


def test_it_is_an_engine_that_a_worker_can_play_with_too(make_engine, fake_server):
    engine = make_engine(fake_server(), fake_server("http://b"))
    assert isinstance(engine, Engine)
    assert isinstance(engine, WorkerEngine)
    assert (engine.version, engine.tp, engine.capacity_tokens) == (0, 1, 200)


def test_replies_come_in_the_order_of_their_requests_and_end_as_they_should(
    make_engine, fake_server, ask
):
    engine = make_engine(fake_server(), fake_server("http://b"))
    requests = [ask(n, prompt=range(20 + n), max_new_tokens=8 - n) for n in range(4)]
    requests.append(ask(4, prompt=range(85), max_new_tokens=10))
    replies = engine.generate(requests)
    for request, reply in zip(requests[:4], replies[:4], strict=True):
        first = len(request.prompt_ids)
        assert list(reply.ids) == [10 + first + n for n in range(request.max_new_tokens)]
        assert reply.finish_reason is FinishReason.LENGTH
    assert (list(replies[4].ids), replies[4].finish_reason) == (
        [95, 96, 97, 98, STOP],
        FinishReason.STOP,
    )


def test_new_weights_in_mid_reply_keep_what_there_is_and_go_on_from_it(
    make_engine, fake_server, ask
):
    server, request = fake_server(), ask(max_new_tokens=10)
    before = copy.deepcopy(request)
    engine = make_engine(server)
    server.hold_after = 3
    engine.submit(request)
    wait_until(lambda: server.num_tokens == 3)
    engine.load_weights(1)
    reply = collect(engine, 1)[0]
    assert list(reply.ids) == list(range(12, 22))
    assert list(reply.versions) == [0] * 3 + [1] * 7
    assert list(reply.logprobs) == pytest.approx([
        -version - (token - 10) / 1000
        for token, version in zip(reply.ids, reply.versions, strict=True)
    ])
    assert reply.finish_reason is FinishReason.LENGTH
    assert request == before
    rest = server.requests[-1]
    assert (rest.prompt_ids, rest.max_new_tokens) == ([5, 6, 12, 13, 14], 7)
    assert rest.seed == derive_seed(request.seed, 3)
    assert server.log.index("pause") < server.log.index("update_weights", 2)
    assert engine.version == 1


def test_the_second_of_two_interruptions_continues_the_first(make_engine, fake_server, ask):
    server = fake_server()
    engine = make_engine(server)
    server.hold_after = 3
    engine.submit(ask(max_new_tokens=10))
    wait_until(lambda: server.num_tokens == 3)
    # It would run on before it can be held again: held from the beginning of the next part.
    resume, server.resume = server.resume, None

    async def resume_and_hold():
        await resume()
        server.hold_after = 2

    server.resume = resume_and_hold
    engine.load_weights(1)
    wait_until(lambda: server.num_tokens == 5)
    server.resume = resume
    engine.load_weights(2)
    reply = collect(engine, 1)[0]
    assert list(reply.ids) == list(range(12, 22))
    assert list(reply.versions) == [0] * 3 + [1] * 2 + [2] * 5


@pytest.mark.parametrize("why", ["no answer within 0.3 s", "http://b failed: disk full"])
def test_the_version_moves_only_when_all_have_acknowledged(make_engine, fake_server, ask, why):
    good, bad = fake_server(), fake_server("http://b")
    engine = make_engine(good, bad, timeout_s=0.3)
    good.hold_after = bad.hold_after = 3
    engine.submit(ask(0))
    engine.submit(ask(1))
    wait_until(lambda: good.num_tokens + bad.num_tokens == 6)
    hangs = why.startswith("no answer")
    bad.failures["update_weights"] = None if hangs else RunFailedError(why)
    start_s = time.monotonic()
    with pytest.raises(
        RunFailedError, match=f"http://b has not taken over the weights of version 1: {why}"
    ):
        engine.load_weights(1)
    assert time.monotonic() - start_s < 5.0
    assert engine.version == 0
    num_requests = len(good.requests)
    for refused in (engine.advance, lambda: engine.submit(ask(2))):
        with pytest.raises(RunFailedError, match="http://b has not taken over"):
            refused()
    assert len(good.requests) == num_requests, "one server has the new weights, so none generates"
    bad.failures.clear()
    engine.load_weights(2)
    for reply in collect(engine, 2).values():
        assert list(reply.versions) == [0] * 3 + [2] * 7


def test_what_a_lost_server_was_doing_is_asked_of_the_others(
    make_engine, fake_server, ask, lost_error
):
    good, bad, said = fake_server(), fake_server("http://b"), []
    engine = make_engine(good, bad, note=said.append)
    good.hold_after = bad.hold_after = 3
    for n in range(4):
        engine.submit(ask(n))
    wait_until(lambda: bad.num_tokens == good.num_tokens == 6)
    bad.failures["generate"] = lost_error("http://b does not answer: it was killed")
    good.hold_after = None
    replies = collect(engine, 4)
    assert all(list(reply.ids) == list(range(12, 22)) for reply in replies.values())
    assert said == ["http://b does not answer: it was killed; 1 others take over what it was doing"]
    assert engine.capacity_tokens == 100
    engine.load_weights(1)
    assert bad.log.count("update_weights") == 1


def test_a_server_that_is_gone_before_new_weights_is_done_without(
    make_engine, fake_server, ask, lost_error
):
    good, bad, said = fake_server(), fake_server("http://b"), []
    engine = make_engine(good, bad, note=said.append)
    bad.failures["pause"] = lost_error("http://b does not answer")
    engine.load_weights(1)
    assert (engine.version, len(said)) == (1, 1)
    assert list(engine.generate([ask(max_new_tokens=2)])[0].versions) == [1, 1]


def test_with_no_server_left_everything_fails_with_the_name_of_the_last(
    make_engine, fake_server, ask, lost_error
):
    server = fake_server()
    engine = make_engine(server)
    server.failures["generate"] = lost_error("http://a does not answer")
    engine.submit(ask(0))
    engine.submit(ask(1))
    with pytest.raises(RunFailedError, match="http://a does not answer; no server is left"):
        collect(engine, 1)
    start_s = time.monotonic()
    with suppress(RunFailedError):
        collect(engine, 1)
    for work in (lambda: engine.generate([ask(2)]), lambda: engine.load_weights(1)):
        with pytest.raises(RunFailedError, match="no server is left"):
            work()
    assert time.monotonic() - start_s < 5.0
    assert engine.version == 0


def test_an_interrupt_ends_all_replies_with_what_there_is(make_engine, fake_server, ask):
    server = fake_server()
    engine = make_engine(server)
    server.hold_after = 3
    threading.Thread(
        target=lambda: (wait_until(lambda: server.num_tokens >= 7), engine.interrupt())
    ).start()
    replies = engine.generate([ask(0), ask(1), ask(2, max_new_tokens=1)])
    assert [list(reply.ids) for reply in replies] == [[12, 13, 14], [12, 13, 14], [12]]
    assert [reply.finish_reason for reply in replies] == [
        FinishReason.ABORT, FinishReason.ABORT, FinishReason.LENGTH,
    ]  # fmt: skip
    assert len(engine.generate([ask(0)])[0].ids) == 10, "the next batch is not touched by it"


def test_a_reply_that_is_cancelled_leaves_the_others_alone(make_engine, fake_server, ask):
    server = fake_server()
    engine = make_engine(server)
    server.hold_after = 2
    engine.submit(ask(0))
    engine.submit(ask(1))
    wait_until(lambda: server.num_tokens == 4)
    with pytest.raises(ValueError, match="sequence 0 is still being answered: cancel it first"):
        engine.release(0)
    assert engine.cancel(0).finish_reason is FinishReason.ABORT
    with pytest.raises(ValueError, match="sequence 0 is not being answered"):
        engine.cancel(0)
    server.hold_after = None
    engine.submit(ask(0, max_new_tokens=4))
    assert {number: len(reply.ids) for number, reply in collect(engine, 2).items()} == {0: 4, 1: 10}
    engine.release(0)
    assert engine.advance() == []


def test_what_cannot_be_answered_is_refused_with_the_numbers(make_engine, fake_server, ask):
    server = fake_server()
    engine = make_engine(server)
    server.hold_after = 0
    engine.submit(ask(0))
    assert engine.resident_tokens == 2
    for request, message in (
        (ask(0), "sequence 0 is still being answered"),
        (ask(1, prompt=()), "needs a prompt and max_new_tokens of at least 1, got 0 tokens and 10"),
        (ask(1, max_new_tokens=99), "a context of 101 tokens does not fit: it may have 100"),
    ):
        with pytest.raises(ValueError, match=message):
            engine.submit(request)
    with pytest.raises(ValueError, match="generate answers its requests alone: 1 others run"):
        engine.generate([ask(1)])
    with pytest.raises(ValueError, match="tp must be 1, got 2"):
        engine.resize(2)
    with pytest.raises(ValueError, match="needs at least one of them, got none"):
        make_engine(load=False)
    with pytest.raises(ValueError, match="must be at least 1, got 100 and 0"):
        make_engine(fake_server(), load=False, max_running=0)


def test_a_server_that_ends_a_reply_by_its_own_rules_is_an_error(make_engine, fake_server, ask):
    server = fake_server()
    engine = make_engine(server)
    generate = server.generate

    async def cut(request):
        return await generate(ask(max_new_tokens=4))

    server.generate = cut
    engine.submit(ask())
    with pytest.raises(RunFailedError, match=r"http://a ended a reply \(length\) at 4 of 10"):
        collect(engine, 1)


def test_an_answer_that_makes_no_sense_is_an_error_with_the_name(make_engine, fake_server, ask):
    server = fake_server()
    server.failures["generate"] = KeyError("choices")
    engine = make_engine(server)
    engine.submit(ask())
    with pytest.raises(RunFailedError, match=r"http://a answers unreadably: KeyError\('choices'\)"):
        collect(engine, 1)


def test_weights_go_through_the_folder_that_was_named_and_nothing_is_left(
    make_engine, fake_server, tiny_model, tmp_path
):
    model, server, folders = copy.deepcopy(tiny_model), fake_server(), []
    update = server.update_weights

    async def keep(folder, version):
        folders.append(folder)
        state = load_file(folder / "model.safetensors")
        # Tied in the model; a server may hold the output layer as a matrix of its own.
        assert torch.equal(state["lm_head.weight"], model.lm_head.weight)
        assert torch.equal(state["model.embed_tokens.weight"], model.lm_head.weight)
        await update(folder, version)

    server.update_weights = keep
    engine = make_engine(server, model=model, weights_dir=tmp_path)
    with torch.no_grad():
        model.lm_head.weight.add_(1.0)
    engine.load_weights(1)
    assert engine.version == 1
    assert tmp_path in folders[1].parents
    assert not folders[0].exists()
    engine.close()
    assert list(tmp_path.iterdir()) == []


def test_weights_are_not_written_for_servers_that_get_them_another_way(
    make_engine, fake_server, tmp_path
):
    server = fake_server()
    engine = make_engine(server, weights_dir=tmp_path)
    before = [path.name for path in tmp_path.glob("*/*")]
    server.needs_folder = False
    engine.load_weights(1)
    assert [path.name for path in tmp_path.glob("*/*")] == before
    assert engine.version == 1


@pytest.mark.parametrize("hangs_in", [None, "pause", "generate"])
def test_it_closes_within_seconds_whatever_is_going_on_and_twice(
    make_engine, fake_server, ask, hangs_in
):
    server = fake_server()
    engine = make_engine(server, timeout_s=60.0)
    if hangs_in:
        server.failures[hangs_in] = None
    server.hold_after = 1
    for n in range(50):
        engine.submit(ask(n))
    if hangs_in == "pause":
        engine._loop.start(engine._fleet.halt())
        wait_until(lambda: "pause" in server.log)
    start_s = time.monotonic()
    engine.close()
    engine.close()
    assert time.monotonic() - start_s < 5.0
    assert server.log.count("close") == 1
