"""A round at some tables leaves the others as they are."""

import pytest
from earl_envs import EndReason, RandomOpponent, make_game
from earl_trainer.rollout.engine import Completion, FinishReason
from earl_trainer.rollout.play import Play
from earl_trainer.rollout.seating import Seating
from earl_trainer.rollout.starts import grouped_starts

ID = "earl/TicTacToe-v0"


@pytest.fixture
def parts(tiny_chat, mute_policy):
    game = make_game(ID)
    seating = Seating(game, game_id=ID, opponent=RandomOpponent(), match_opponent=RandomOpponent())
    play = Play(game, chat=tiny_chat, max_context_tokens=40, max_reply_tokens=4)
    starts = grouped_starts(0, step=0, num_episodes=4, group_size=2, num_seats=2)
    return play, *seating.set_tables(mute_policy, starts)


def say(chat, text):
    ids = chat.encode_reply(text)
    return Completion(
        ids=ids,
        logprobs=(-1.0,) * len(ids),
        versions=(0,) * len(ids),
        finish_reason=FinishReason.STOP,
    )


def test_opponents_move_until_every_table_waits_for_a_reply(parts):
    play, batches, tables = parts
    play.move_opponents(batches, tables)
    assert [table.mover for table in tables] == [table.talkers[table.mover].start.seat
                                                 for table in tables]  # fmt: skip
    moved = [len(batches[0].moves(table.index)) for table in tables]
    assert moved == [next(iter(table.talkers)) for table in tables]


def test_only_the_tables_that_replied_go_on(parts, tiny_chat):
    play, batches, tables = parts
    play.move_opponents(batches, tables)
    turns = play.open_turns(tables, play.max_context_tokens)
    legal = batches[0].legal(1)
    replies = [say(tiny_chat, f"[{legal[0] + 1}]"), say(tiny_chat, "X")]
    play.take_replies(batches, [turns[1], turns[2]], replies)
    assert [len(batches[0].moves(table.index)) for table in tables] == [0, 1, 1, 1]
    assert tables[2].mover == -1
    assert tables[2].talkers[1].games[0].end_reason is EndReason.UNPARSABLE
    assert tables[0].mover == 0


def test_a_table_without_room_for_a_reply_is_cut(parts):
    play, batches, tables = parts
    play.move_opponents(batches, tables)
    assert play.open_turns(tables, 11) == []
    assert {table.talkers[next(iter(table.talkers))].games[0].end_reason for table in tables} == {
        EndReason.CONTEXT_LIMIT
    }
