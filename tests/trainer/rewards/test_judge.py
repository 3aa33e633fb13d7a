"""Episodes go in as they end, and come out with what functions say of them."""

import time
from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.rewards.function import parse_functions
from earl_trainer.rewards.judge import Judge, transcript_of
from earl_trainer.rewards.outcome import RewardFailure
from earl_trainer.types import RunFailedError

GAME_ID = "earl/TicTacToe-v0"


@pytest.fixture
def open_judge(open_service):
    def open_(*texts, on_failure="drop", timeout_s=60.0, **options):
        functions = parse_functions([f"odd_rewards:{text}" for text in texts])
        service = open_service(*(function.name for function in functions), **options)
        return Judge(
            service, functions, game_id=GAME_ID, on_failure=on_failure, timeout_s=timeout_s
        )

    return open_


@pytest.fixture
def said(make_episode, make_turn):
    """Make an episode of its own identity in which this was said."""

    def make(number, *texts, **fields):
        turns = [replace(make_turn([1, 2], [3, 4]), text=text) for text in texts]
        episode = make_episode(turns=turns, **fields)
        return replace(episode, start=replace(episode.start, episode=number))

    return make


def test_each_episode_gets_its_own_judgement_in_any_order(open_judge, said):
    judge = open_judge("length=0.5", "minus_tokens", num_processes=2)
    episodes = [said(number, "a" * number, "b") for number in range(12)]
    for episode in reversed(episodes):
        judge.submit(episode)
    judged = judge.collect(episodes)
    assert [each.start for each in judged] == [each.start for each in episodes]
    assert [each.judgement.bonus for each in judged] == [0.5 * (n + 1) - 4 for n in range(12)]
    assert judged[3].judgement.outcomes["length"].value == 4.0
    assert judged[3].summary.judgement is judged[3].judgement
    assert [replace(each, judgement=None) for each in judged] == episodes


def test_what_is_said_of_replies_is_weighed_and_kept(open_judge, said):
    judge = open_judge("lengths=0.5", "minus_tokens")
    episode = said(0, "abc", "d")
    judge.submit(episode)
    (judged,) = judge.collect([episode])
    assert judged.judgement.outcomes["lengths"].parts == (3.0, 1.0)
    assert (judged.judgement.bonus, judged.judgement.parts) == (2.0 - 4.0, (1.5, 0.5))


def test_it_says_whether_it_would_wait_and_how_long_it_did(open_judge, said, wait_until):
    judge = open_judge("sleep")
    quick, slow = said(0, "0"), said(1, "1.0")
    judge.submit(quick)
    wait_until(lambda: judge.is_done([quick]))
    judge.submit(slow)
    assert not judge.is_done([quick, slow])
    judge.collect([quick, slow])
    assert 0.5 < judge.take_waited_s() < 20.0
    assert judge.take_waited_s() == 0.0


def test_a_failure_is_marked_and_not_scored(open_judge, said):
    judge = open_judge("fail", "length")
    episode = said(0, "abc")
    judge.submit(episode)
    (judged,) = judge.collect([episode])
    assert judged.judgement.bonus is None
    assert judged.judgement.outcomes["fail"].failure is RewardFailure.ERROR
    assert judged.judgement.outcomes["length"].value == 3.0
    assert not judged.summary.trainable


def test_what_cannot_be_trained_on_is_not_judged(open_judge, said):
    judge = open_judge("length")
    failed, silent = said(0, "abc", end_reason=EndReason.ENV_ERROR), said(1)
    for episode in (failed, silent):
        judge.submit(episode)
    assert judge.is_done([failed, silent])
    assert judge.collect([failed, silent]) == [failed, silent]


def test_waiting_ends_in_time_and_says_so(open_judge, said):
    judge = open_judge("sleep", timeout_s=0.5)
    episode = said(0, "60")
    judge.submit(episode)
    start_s = time.monotonic()
    with pytest.raises(RunFailedError, match=r"1 rewards were not there after 0\.5 s"):
        judge.collect([episode])
    assert time.monotonic() - start_s < 3.0
    judge.close()


def test_a_transcript_holds_what_the_seat_lived(said):
    episode = said(5, "X [4]", "[0]", games=[(1.0, EndReason.FINISHED), (0.0, EndReason.FINISHED)])
    written = transcript_of(GAME_ID, episode)
    assert written.game_id == GAME_ID
    assert written.replies == ("X [4]", "[0]")
    assert written.reply_tokens == (2, 2)
    assert [game.end_reason for game in written.games] == ["finished", "finished"]
    assert type(written.games[0].end_reason) is str
    assert written.outcome == 0.5
    assert written.num_games == 2
    assert not written.truncated
