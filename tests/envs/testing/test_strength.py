"""Games in which playing well does not pay are caught; games of chance are left alone."""

import pytest
from earl_envs.evaluation.match import play_match
from earl_envs.games.kuhn_poker import KuhnPoker
from earl_envs.testing import strength


@pytest.fixture
def little_effort(monkeypatch):
    monkeypatch.setattr(strength, "_MAX_SIMULATIONS", 20)


def test_search_beats_random_moves_in_honest_games(little_effort, stones, findings_of):
    assert findings_of("strong_beats_random", stones) == []


def test_scores_that_have_nothing_to_do_with_the_moves_are_caught(
    little_effort, stones, findings_of
):
    class Fate(stones):
        def returns(self, state):
            return None if state[0] else [(1.0, -1.0), (-1.0, 1.0)][self.fate(state)]

        def initial(self, rng):
            return int(rng.integers(6, 9)), 0, int(rng.integers(2))

        def apply(self, state, action):
            return (*super().apply(state[:2], action), state[2])

        def text(self, state, seat):
            return f"{state[0]} stones, seat {state[2]} will win"

        def fate(self, state):
            return state[2]

    (found,) = findings_of("strong_beats_random", Fate)
    assert found.startswith("mcts:20 scores 0.50 [0.36, 0.64] against random moves")


def test_games_of_chance_or_secrets_or_one_seat_are_left_alone(
    monkeypatch, stones, sealed, findings_of
):
    class Alone(stones):
        num_seats = 1

    def refuse(*args, **options):
        pytest.fail("no match should be played")

    monkeypatch.setattr(strength, "play_match", refuse)
    assert findings_of("strong_beats_random", sealed, num_games=100) == []
    assert findings_of("strong_beats_random", KuhnPoker) == []
    assert findings_of("strong_beats_random", Alone) == []


def test_the_effort_of_a_match_is_bounded(context_of, stones):
    class Long(stones):
        max_moves = 600

        def initial(self, rng):
            return 400, 0

    class Wide(stones):
        num_actions = 10_000

        def legal(self, state):
            return list(range(10_000)) if state[0] else []

        def apply(self, state, action):
            return super().apply(state, action % min(state[0], 2))

    assert strength._searcher(context_of(stones)) == ("mcts:400", True)
    assert strength._searcher(context_of(Long, num_games=2)) == ("negamax:2", False)
    assert strength._searcher(context_of(Wide, num_games=2)) == ("negamax:1", False)


def test_a_search_that_proves_nothing_is_let_pass_only_in_games_too_big_for_more(
    monkeypatch, stones, findings_of
):
    monkeypatch.setattr(strength, "_searcher", lambda context: ("random", False))
    assert findings_of("strong_beats_random", stones) == []
    monkeypatch.setattr(strength, "_searcher", lambda context: ("random", True))
    assert findings_of("strong_beats_random", stones)[0].startswith("random scores ")


def test_a_search_that_loses_is_caught_in_any_game(monkeypatch, stones, findings_of):
    def lost_match(game_id, a, b, **options):
        return play_match(game_id, b, "minimax", **options)

    monkeypatch.setattr(strength, "play_match", lost_match)
    monkeypatch.setattr(strength, "_searcher", lambda context: ("negamax:1", False))
    (found,) = findings_of("strong_beats_random", stones)
    assert found.startswith("negamax:1 scores 0.")


def test_a_seat_in_which_search_is_worse_than_chance_is_caught(monkeypatch, stones, findings_of):
    monkeypatch.setattr(strength, "_random_interval", lambda context, seat: (seat * 1.1, 1.2))
    monkeypatch.setattr(strength, "_searcher", lambda context: ("minimax", True))
    (found,) = findings_of("strong_beats_random", stones)
    assert found.startswith("minimax in seat 1 scores [")
