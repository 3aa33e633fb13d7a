"""A round at some tables leaves the others as they are."""

import math
from dataclasses import replace

import pytest
from earl_envs import EndReason, RandomOpponent, make_game
from earl_trainer.experience.samples import build_columns
from earl_trainer.rewards.config import RewardConfig
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


@pytest.mark.parametrize("logprob", [math.nan, math.inf, -math.inf])
def test_a_reply_with_a_logprob_that_is_no_number_fails_its_episode(parts, tiny_chat, logprob):
    play, batches, tables = parts
    play.move_opponents(batches, tables)
    turns = play.open_turns(tables[:2], play.max_context_tokens)
    good, other = (say(tiny_chat, f"[{batches[0].legal(place)[0] + 1}]") for place in (0, 1))
    bad = replace(other, logprobs=(-1.0, logprob, *other.logprobs[2:]))
    play.take_replies(batches, turns, [good, bad])
    (sound,), (failed,) = ([*table.talkers.values()] for table in tables[:2])
    (game,) = failed.games
    assert (game.end_reason, game.detail) == (
        EndReason.ENV_ERROR,
        f"the engine gave token 2 of a reply the log-prob {logprob}",
    )
    episode = failed.episode(min_return=-1.0)
    assert episode.summary.failed
    assert build_columns([episode], RewardConfig()).num_rows == 0
    assert len(sound.turns) == 1


def test_a_table_without_room_for_a_reply_is_cut(parts):
    play, batches, tables = parts
    play.move_opponents(batches, tables)
    assert play.open_turns(tables, 11) == []
    assert {table.talkers[next(iter(table.talkers))].games[0].end_reason for table in tables} == {
        EndReason.CONTEXT_LIMIT
    }
