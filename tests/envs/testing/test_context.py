"""What the checks look at."""

import pytest
from earl_envs.testing.context import make_context


def test_visits_hold_both_ends_of_every_game_within_the_limit():
    context = make_context("earl/ConnectFour-v0", {}, num_games=10, seed=0)
    visits = list(context.visits(limit=50))
    assert len(visits) <= 50
    for play in context.plays:
        places = [visit.place for visit in visits if visit.play is play]
        assert places[0] == 0
        assert places[-1] == len(play.moves)
        assert places == sorted(set(places))
    assert all(visit.position.legal for visit in context.running_visits())


def test_everything_derives_from_the_seed():
    first, again, other = (
        make_context("earl/TicTacToe-v0", {}, num_games=4, seed=seed) for seed in (1, 1, 2)
    )
    assert [play.moves for play in first.plays] == [play.moves for play in again.plays]
    assert [play.moves for play in first.plays] != [play.moves for play in other.plays]
    assert first.rng("a").integers(2**60) == again.rng("a").integers(2**60)
    assert first.rng("a").integers(2**60) != first.rng("b").integers(2**60)


def test_parameters_reach_every_object_of_the_game():
    context = make_context("earl/Hex-v0", {"size": 4}, num_games=1, seed=0)
    assert context.game.num_actions == context.make_game().num_actions == 16


def test_no_games_are_refused():
    with pytest.raises(ValueError, match="num_games must be >= 1, got 0"):
        make_context("earl/TicTacToe-v0", {}, num_games=0, seed=0)
