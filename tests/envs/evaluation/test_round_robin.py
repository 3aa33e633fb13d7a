"""Everybody against everybody."""

import pytest
from earl_envs.evaluation.elo import PairResult, fit_elo
from earl_envs.evaluation.round_robin import pair_results, play_round_robin

ID = "earl/TicTacToe-v0"


def test_every_pair_meets_once_whoever_else_takes_part():
    few = play_round_robin(ID, {"r": "random", "f": "first"}, num_games=8, seed=3)
    more = play_round_robin(
        ID, {"n": "negamax:1", "r": "random", "f": "first"}, num_games=8, seed=3
    )

    assert list(more) == [("n", "r"), ("n", "f"), ("r", "f")]
    assert more["r", "f"] == few["r", "f"]
    assert [match.total.games for match in more.values()] == [8, 8, 8]


def test_counts_are_handed_on_and_rank_the_players():
    matches = play_round_robin(
        ID, {"random": "random", "searcher": "negamax:2", "first": "first"}, num_games=20, seed=0
    )
    results = pair_results(matches)
    total = matches["random", "searcher"].total

    assert results[0] == PairResult(
        a="random", b="searcher", wins=total.wins, draws=total.draws, losses=total.losses
    )
    ratings = fit_elo(results, anchor="random")
    assert ratings[0].name == "searcher"
    assert ratings[0].interval[0] > 0.0


def test_one_player_makes_no_round_robin():
    with pytest.raises(ValueError, match=r"two players at least, got \['r'\]"):
        play_round_robin(ID, {"r": "random"}, num_games=2, seed=0)
