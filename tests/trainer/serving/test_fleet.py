"""Where replies are asked for, and how many at once."""

import asyncio

import pytest
from earl_trainer.rollout.reply import Reply
from earl_trainer.serving.fleet import Fleet
from earl_trainer.types import RunFailedError


@pytest.fixture
def run(tmp_path):
    """Run work with a fleet of servers that have their first weights."""
    (tmp_path / "config.json").write_text("{}")

    def run(servers, work, *, max_running=256):
        async def main():
            fleet = Fleet(
                servers, stop_ids={99}, max_running=max_running, timeout_s=2.0, note=print
            )
            await fleet.publish(tmp_path, 0)
            return await asyncio.wait_for(work(fleet), 20.0)

        return asyncio.run(main())

    return run


async def answer_all(fleet, requests):
    replies = [Reply(request=request) for request in requests]
    await asyncio.gather(*(fleet.answer(reply) for reply in replies))
    return replies


def seen_by(server):
    return {request.sequence_id for request in server.requests}


def test_a_conversation_stays_where_it_is_and_new_ones_go_where_there_is_least_to_do(
    run, fake_server, ask
):
    servers = [fake_server(), fake_server("http://b"), fake_server("http://c")]

    async def work(fleet):
        await answer_all(fleet, [ask(n) for n in range(9)])
        first = [seen_by(server) for server in servers]
        assert [len(each) for each in first] == [3, 3, 3]
        # One after another, and in another order, so that only memory brings them back.
        for n in reversed(range(9)):
            await answer_all(fleet, [ask(n, prompt=range(20))])
        assert [seen_by(server) for server in servers] == first

    run(servers, work)


def test_a_conversation_that_was_given_up_may_go_anywhere(run, fake_server, ask):
    first, second = fake_server(), fake_server("http://b")

    async def work(fleet):
        await answer_all(fleet, [ask(0), ask(1)])
        assert (seen_by(first), seen_by(second)) == ({0}, {1})
        await fleet.forget(1)
        await answer_all(fleet, [ask(1)])
        assert seen_by(first) == {0, 1}

    run([first, second], work)


def test_new_weights_set_conversations_free(run, fake_server, ask, tmp_path):
    first, second = fake_server(), fake_server("http://b")

    async def work(fleet):
        await answer_all(fleet, [ask(0), ask(1)])
        await fleet.publish(tmp_path, 1)
        await answer_all(fleet, [ask(1)])
        assert seen_by(first) == {0, 1}, "nobody holds its context any more"

    run([first, second], work)


def test_no_server_is_asked_for_more_than_it_may_be(run, fake_server, ask):
    server = fake_server()
    replies = run(
        [server], lambda fleet: answer_all(fleet, [ask(n) for n in range(12)]), max_running=3
    )
    assert server.most_running == 3
    assert all(len(reply.ids) == 10 for reply in replies)


def test_what_waits_for_room_when_its_server_is_lost_goes_to_another(
    run, fake_server, ask, lost_error
):
    good, bad = fake_server(), fake_server("http://b")
    bad.failures["generate"] = lost_error("gone")
    replies = run(
        [bad, good], lambda fleet: answer_all(fleet, [ask(n) for n in range(8)]), max_running=1
    )
    assert all(len(reply.ids) == 10 for reply in replies)
    assert len(bad.requests) == 1


def test_while_it_is_halted_nothing_begins(run, fake_server, ask):
    server = fake_server()

    async def work(fleet):
        await fleet.halt()
        running = asyncio.ensure_future(answer_all(fleet, [ask(0)]))
        await asyncio.sleep(0.05)
        assert server.requests == []
        await fleet.proceed()
        (reply,) = await running
        assert len(reply.ids) == 10

    run([server], work)


def test_a_server_that_goes_on_after_a_pause_is_an_error(run, fake_server, ask):
    server = fake_server()

    async def no_pause():
        pass

    async def work(fleet):
        server.pause = no_pause
        server.hold_after = 1
        running = asyncio.ensure_future(answer_all(fleet, [ask(0)]))
        await asyncio.sleep(0.02)
        with pytest.raises(RunFailedError, match="replies go on 2 s after a pause"):
            await fleet.halt()
        running.cancel()
        await asyncio.wait([running])

    run([server], work)


def test_a_reply_that_is_stopped_ends_there(run, fake_server, ask):
    server = fake_server()

    async def work(fleet):
        server.hold_after = 2
        running = asyncio.ensure_future(answer_all(fleet, [ask(3)]))
        await asyncio.sleep(0.05)
        await fleet.stop(3)
        await asyncio.wait([running])
        assert running.cancelled()
        await fleet.stop(3)
        assert server.num_running == 0

    run([server], work)
