"""What an episode says about itself."""

from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.rewards.outcome import Judgement
from earl_trainer.types import Episode, EpisodeStart, PlayedGame, Turn


def turn(prompt_tokens, reply_tokens, *, cut=False):
    return Turn(
        prompt_ids=(1,) * prompt_tokens,
        reply_ids=(2,) * reply_tokens,
        logprobs=(0.0,) * reply_tokens,
        versions=(0,) * reply_tokens,
        text="",
        action=None,
        cut=cut,
    )


def game(end_reason=EndReason.FINISHED, *, outcome=0.0, moves=(), detail=""):
    return PlayedGame(
        game_seed=0,
        first_turn=0,
        moves=moves,
        end_reason=end_reason,
        outcome=outcome,
        detail=detail,
    )


def episode(*games, turns=(), num_games=1):
    start = EpisodeStart(
        episode=0, table=0, group=0, seat=0, game_seed=0, reply_seed=0, num_games=num_games
    )
    return Episode(start=start, turns=turns, games=games or (game(),)).summary


@pytest.mark.parametrize(
    ("reason", "kinds"),
    [
        (EndReason.FINISHED, ()),
        (EndReason.ILLEGAL_MOVE, ("forfeited",)),
        (EndReason.UNPARSABLE, ("forfeited",)),
        (EndReason.CONTEXT_LIMIT, ("truncated",)),
        (EndReason.ENV_ERROR, ("failed",)),
        (EndReason.OPPONENT_ERROR, ("failed",)),
    ],
)
def test_an_end_is_forfeited_cut_failed_or_none_of_them(reason, kinds):
    ended = episode(game(reason), turns=(turn(3, 2),))
    said = {
        "forfeited": ended.num_forfeits == 1,
        "truncated": ended.truncated,
        "failed": ended.failed,
    }

    assert said == {kind: kind in kinds for kind in said}


def test_a_cut_reply_truncates_a_game_that_was_finished():
    assert episode(turns=(turn(3, 2, cut=True), turn(8, 2))).truncated


def test_the_context_is_the_last_prompt_and_reply():
    assert episode(turns=(turn(3, 2), turn(8, 4))).context_tokens == 12
    assert episode().context_tokens == 0


def test_one_game_is_the_episode():
    only = episode(game(EndReason.UNPARSABLE, outcome=-1.0, moves=(4, 0), detail="no move"))

    assert (only.outcome, only.moves, only.detail) == (-1.0, (4, 0), "no move")
    assert only.end_reason is EndReason.UNPARSABLE


def test_several_games_are_averaged_and_told_one_by_one():
    played = episode(
        game(outcome=1.0, moves=(0, 1)),
        game(EndReason.ILLEGAL_MOVE, outcome=-1.0, moves=(2,), detail="[3] is not legal now"),
        game(outcome=1.0, moves=(3,)),
        num_games=3,
    )

    assert played.outcome == pytest.approx(1 / 3)
    assert played.moves == (0, 1, 2, 3)
    assert played.num_forfeits == 1
    assert played.end_reason is EndReason.FINISHED
    assert played.detail == (
        "game 1: finished +1; game 2: illegal_move -1 [3] is not legal now; game 3: finished +1"
    )


def later(end_reason, *, first_turn):
    return replace(game(end_reason), first_turn=first_turn)


@pytest.mark.parametrize(
    ("last_began", "outcome"), [(True, (1.0 + 0.0 - 2 - 2) / 4), (False, (1.0 - 2 - 2 - 2) / 4)]
)
def test_games_for_which_the_context_had_no_room_count_the_lowest_score(last_began, outcome):
    last = later(EndReason.CONTEXT_LIMIT, first_turn=1 if last_began else 2)
    cut = episode(game(outcome=1.0), last, turns=(turn(3, 2), turn(8, 2)), num_games=4)
    cut = replace(cut, min_return=-2)

    assert cut.outcome == outcome
    assert cut.truncated


def test_a_failure_or_a_single_cut_game_counts_nothing():
    failed = later(EndReason.ENV_ERROR, first_turn=0)

    assert episode(game(outcome=1.0), failed, num_games=4).outcome == 0.25
    assert episode(game(EndReason.CONTEXT_LIMIT)).outcome == 0.0


def test_there_is_something_to_train_on_with_a_reply_a_result_and_a_reward():
    played = episode(turns=[turn(3, 1)])
    assert played.trainable
    assert not episode().trainable
    assert not episode(game(EndReason.ENV_ERROR), turns=[turn(3, 1)]).trainable
    assert replace(played, judgement=Judgement(outcomes={}, bonus=0.0)).trainable
    assert not replace(played, judgement=Judgement(outcomes={}, bonus=None)).trainable
