"""What the checks look at."""

import pytest
from earl_envs.testing.context import make_context


def test_visits_are_spread_over_all_depths_within_the_limit():
    context = make_context("earl/ConnectFour-v0", {}, num_games=10, seed=0)
    visits = list(context.visits(limit=48))
    assert len(visits) == 46
    running = [visit.place for visit in visits if visit.position.returns is None]
    assert len(running) == 36
    assert running == sorted(running)
    assert running[0] == 0
    assert sum(5 < place < 15 for place in running) >= 8
    assert sum(visit.position.returns is not None for visit in visits) == 10


def test_few_visits_of_many_short_games_are_not_all_starts(context_of, sealed):
    context = context_of(sealed, num_games=100)
    places = [visit.place for visit in context.running_visits(limit=50)]
    assert (places.count(0), places.count(1)) == (25, 25)
    assert len(list(context.running_visits())) == 200


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
