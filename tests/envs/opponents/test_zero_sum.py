"""Two opposed seats, equal moves, and states that cannot be told apart."""

import numpy as np
import pytest
from earl_envs import make_game
from earl_envs.opponents.zero_sum import check_two_sided, choose_action, draw_best, score


def test_games_of_other_numbers_of_seats_are_refused(ladder):
    with pytest.raises(ValueError, match="games of two seats against each other, got 3"):
        check_two_sided(ladder)
    check_two_sided(make_game("earl/TicTacToe-v0"))


def test_a_forfeit_that_hurts_both_gives_a_shared_game_away(together):
    together.forfeit = lambda seat: (-1.0, -1.0)
    with pytest.raises(ValueError, match=r"one seat wins what the other loses, got scores of \(-1"):
        check_two_sided(together)


def test_a_forfeit_that_costs_nothing_gives_a_cooperative_game_away():
    with pytest.raises(ValueError, match="seat 0 loses nothing by a forfeit"):
        check_two_sided(make_game("earl/Hanabi-v0"))


def test_scores_must_sum_to_zero():
    assert score((0.3, -0.3), 1) == -0.3
    with pytest.raises(ValueError, match="one seat wins what the other loses"):
        score((1.0, 1.0), 0)


def test_equal_values_are_drawn_equally_often():
    rng = np.random.default_rng(0)
    drawn = [draw_best({3: 1.0, 5: 0.5, 7: 1.0}, rng) for _ in range(1_000)]
    assert set(drawn) == {3, 7}
    assert 400 < drawn.count(3) < 600  # six standard deviations


def test_values_are_averaged_over_states_the_seat_cannot_tell_apart(hidden_coin):
    searched = []

    def values(world, exact):
        searched.append((world, exact))
        return {a: hidden_coin.returns(hidden_coin.apply(world, a))[0] for a in range(3)}

    rng = np.random.default_rng(0)
    for coin in (0, 1):
        assert choose_action(hidden_coin, (coin, -1), 0, rng, values) == 2
    assert set(searched) == {((0, -1), True), ((1, -1), True)}


def test_a_game_without_secrets_is_searched_once():
    searched = []
    game = make_game("earl/TicTacToe-v0")

    def values(world, exact):
        searched.append((world, exact))
        return {4: 1.0}

    assert choose_action(game, (0, 0), 0, np.random.default_rng(0), values) == 4
    assert searched == [((0, 0), False)]
