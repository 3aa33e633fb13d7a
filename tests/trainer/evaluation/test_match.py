import pytest
from earl_envs import EndReason
from earl_envs.evaluation.intervals import difference_interval, wilson_interval
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.types import RunFailedError


def test_games_are_counted_by_how_they_ended(make_turn, make_summary):
    two_turns = [make_turn([1], [2]), make_turn([1, 2, 3], [4])]
    result = MatchResult.of([
        make_summary(outcome=1.0, turns=two_turns),
        make_summary(outcome=1.0, turns=two_turns),
        make_summary(outcome=1.0, turns=two_turns),
        make_summary(outcome=0.0, turns=two_turns),
        make_summary(outcome=-1.0, turns=two_turns),
        make_summary(outcome=-1.0, end_reason=EndReason.ILLEGAL_MOVE, turns=two_turns),
        make_summary(outcome=-1.0, end_reason=EndReason.UNPARSABLE),
        # Cut, with the outcome of a draw; and failed, with an outcome that means nothing.
        make_summary(outcome=0.0, end_reason=EndReason.CONTEXT_LIMIT),
        make_summary(outcome=0.0, end_reason=EndReason.ENV_ERROR),
        make_summary(outcome=1.0, end_reason=EndReason.OPPONENT_ERROR),
    ])
    assert result.games == 8
    assert (result.win_rate, result.draw_rate, result.loss_rate) == (3 / 8, 1 / 8, 4 / 8)
    assert (result.win_rate_low, result.win_rate_high) == wilson_interval(3, 8)
    # Two forfeits in 6 x 2 + 2 x 1 replies.
    assert result.illegal_rate == pytest.approx(2 / 14)


def test_a_match_of_failed_games_only_ends_the_run_with_the_first_reason(make_summary):
    games = [make_summary(end_reason=EndReason.ENV_ERROR, detail="KeyError: 3")] * 2
    with pytest.raises(RunFailedError, match="all 2 games of the match failed: KeyError: 3"):
        MatchResult.of(games)


def test_a_cut_game_without_a_reply_has_no_illegal_one(make_summary):
    game = make_summary(outcome=0.0, end_reason=EndReason.CONTEXT_LIMIT, turns=[])
    result = MatchResult.of([game])
    assert (result.loss_rate, result.illegal_rate) == (1.0, 0.0)


def test_gain_is_the_difference_in_win_rate_with_newcombes_interval(make_summary):
    def match(wins, games):
        return MatchResult.of([
            make_summary(outcome=1.0 if game < wins else -1.0) for game in range(games)
        ])

    gain, low, high = match(56, 70).gain_over(match(48, 80))
    assert gain == pytest.approx(0.2)
    assert (low, high) == difference_interval(48, 80, 56, 70)
    assert low < gain < high


def test_every_game_of_an_episode_counts(make_summary):
    finished, forfeit = EndReason.FINISHED, EndReason.UNPARSABLE
    result = MatchResult.of([
        make_summary(games=[(1.0, finished), (0.0, finished), (-1.0, forfeit)]),
        make_summary(games=[(1.0, finished), (1.0, EndReason.ENV_ERROR)]),
    ])

    assert result.games == 3
    assert (result.win_rate, result.draw_rate, result.loss_rate) == (1 / 3, 1 / 3, 1 / 3)
    assert result.illegal_rate == 1.0
