"""Games in which playing well does not pay are caught; where nobody can tell, that is noted."""

import math
import re

import pytest
from earl_envs.games.kuhn_poker import KuhnPoker
from earl_envs.testing import strength
from earl_envs.testing.strength import Gain, Searcher, strong_beats_random


@pytest.fixture
def little_effort(monkeypatch):
    monkeypatch.setattr(strength, "_MAX_SIMULATIONS", 20)
    monkeypatch.setattr(strength, "_MAX_RULE_CALLS", 12_000)


@pytest.fixture
def searched_by(monkeypatch):
    def use(spec, *, has_to_win):
        searcher = Searcher(spec=spec, calls_per_game=100_000.0, has_to_win=has_to_win)
        monkeypatch.setattr(strength, "_tree_searcher", lambda context, **effort: searcher)

    return use


def test_search_beats_random_moves_from_both_seats(little_effort, stones, context_of, monkeypatch):
    seen = []
    interval = strength._interval
    monkeypatch.setattr(strength, "_interval", lambda d: seen.append(interval(d)) or seen[-1])
    assert list(strong_beats_random(context_of(stones))) == []
    assert len(seen) % 2 == 0
    assert all(low > 0 for low, _ in seen[-2:])


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
    assert found.startswith("mcts:20 in seat 0 scores [+0.00, +0.00] more than random moves do")
    assert re.search(r"\n    at seed \d+, moves \[[01, ]+\]: 0 stones, seat 1 will win$", found)


def test_one_seat_in_which_moves_mean_nothing_is_caught(little_effort, stones, findings_of):
    class OneSided(stones):
        """Seat 1 takes one stone whatever it says."""

        def apply(self, state, action):
            return super().apply(state, action if state[1] == 0 else 0)

    (found,) = findings_of("strong_beats_random", OneSided)
    assert found.startswith("mcts:20 in seat 1 scores [+0.00, +0.00] more than random moves do")


def test_a_search_no_better_than_random_moves_fails(searched_by, stones, findings_of):
    searched_by("random", has_to_win=True)
    (found,) = findings_of("strong_beats_random", stones)
    assert found.startswith(
        "random in seat 0 scores [+0.00, +0.00] more than random moves do there"
    )


def test_in_games_of_secrets_that_is_a_note(searched_by, sealed, context_of):
    searched_by("random", has_to_win=False)
    noted = list(strong_beats_random(context_of(sealed)))
    assert [note.is_note for note in noted] == [True, True]
    assert noted[0].wrong.startswith("not decided: random in seat 0 scores [")


def _scored(stones, win, loss):
    class Scored(stones):
        def returns(self, state):
            winner = 1 - state[1]
            return None if state[0] else tuple(win if seat == winner else loss for seat in (0, 1))

    return Scored


def test_winning_need_not_cost_the_loser_as_much(little_effort, searched_by, stones, findings_of):
    assert findings_of("strong_beats_random", _scored(stones, 1.0, 0.0)) == []
    searched_by("random", has_to_win=True)
    (found,) = findings_of("strong_beats_random", _scored(stones, 1.0, 0.0))
    assert "do the scores depend on the moves?" in found


def test_where_both_may_win_that_is_a_note(searched_by, stones, context_of):
    class Partly(stones):
        def returns(self, state):
            # An early end, of few moves, pays both more.
            return None if state[0] else ((1.0, 0.5) if state[1] else (0.25, 1.0))

    searched_by("random", has_to_win=True)
    noted = list(strong_beats_random(context_of(Partly)))
    assert [note.is_note for note in noted] == [True, True]


@pytest.mark.slow
def test_poker_is_decided_by_its_mean_score(monkeypatch, context_of):
    monkeypatch.setattr(strength, "_MAX_BLIND_SIMULATIONS", 30)
    assert list(strong_beats_random(context_of(KuhnPoker, num_games=100))) == []


@pytest.mark.parametrize(("worth", "fails"), [(-0.1, True), (0.1, False)])
def test_in_games_too_big_for_trees_only_a_loss_fails(
    monkeypatch, stones, context_of, worth, fails
):
    monkeypatch.setattr(strength, "_tree_searcher", lambda context, **effort: None)
    monkeypatch.setattr(
        strength, "_gains", lambda context, searcher: [Gain(interval=(-0.3, worth), worst=None)] * 2
    )
    found = list(strong_beats_random(context_of(stones)))
    assert [finding.is_note for finding in found] == [not fails, not fails]
    assert found[0].wrong.removeprefix("not decided: ").startswith("negamax:2 in seat 0 scores [-0")


def test_secrets_too_big_for_trees_are_noted_and_not_played(monkeypatch, sealed, context_of):
    monkeypatch.setattr(strength, "_tree_searcher", lambda context, **effort: None)
    monkeypatch.setattr(strength, "play_match", lambda *args, **options: pytest.fail("was played"))
    (note,) = strong_beats_random(context_of(sealed))
    assert (note.is_note, note.wrong) == (
        True,
        "not decided: games are too long for tree search",
    )


def test_games_without_rivals_are_left_alone(monkeypatch, stones, findings_of):
    class Alone(stones):
        num_seats = 1

        def apply(self, state, action):
            return state[0] - action - 1, 0

        def returns(self, state):
            return None if state[0] else (1.0,)

    class Shared(stones):
        def returns(self, state):
            return None if state[0] else (1.0, 1.0)

    monkeypatch.setattr(strength, "play_match", lambda *args, **options: pytest.fail("was played"))
    assert findings_of("strong_beats_random", Alone) == []
    assert findings_of("strong_beats_random", Shared) == []


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

    small, long, wide = (context_of(game, num_games=2) for game in (stones, Long, Wide))
    open_, blind = (strength._tree_searcher(small, is_open=is_open) for is_open in (True, False))
    assert (open_.spec, open_.has_to_win) == ("mcts:1000", True)
    assert (blind.spec, blind.has_to_win) == ("mcts:100", False)
    for big in (long, wide):
        assert strength._tree_searcher(big, is_open=True) is None
    assert strength._depth_searcher(long).spec == "negamax:2"
    assert strength._depth_searcher(wide).spec == "negamax:1"
    assert strength._depth_searcher(wide).calls_per_game > 10_000


def test_matches_grow_until_the_effort_is_spent(monkeypatch, stones, context_of):
    played = []
    play = strength._play

    def count(context, spec, num_games):
        played.append(num_games)
        return play(context, "random", num_games)

    monkeypatch.setattr(strength, "_play", count)
    costly = Searcher(spec="random", calls_per_game=strength._MAX_RULE_CALLS / 50, has_to_win=True)
    strength._gains(context_of(stones), costly)
    assert played == [12, 12, 36, 36]


def test_the_interval_is_students():
    scores = [1.0, 0.0, 2.0, 1.0] * 8
    low, high = strength._interval(scores)
    half = 2.0395 * math.sqrt(16 / 31) / math.sqrt(32)  # t of 31 degrees of freedom
    assert (low, high) == pytest.approx((1 - half, 1 + half), rel=1e-3)
    assert strength._interval([1.0]) == (-math.inf, math.inf)
