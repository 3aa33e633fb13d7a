"""Games that lie about their rules are caught, with the position."""

import pytest
from earl_envs import make_game, replay
from earl_envs.games.tic_tac_toe import TicTacToe
from earl_envs.testing import CHECKS
from earl_envs.testing.check import find
from earl_envs.testing.context import make_context

RULES = ["declaration", "playthrough", "legal_actions", "terminal_states", "purity", "scores",
         "forfeits"]  # fmt: skip


@pytest.mark.parametrize("check", RULES)
def test_honest_games_pass(check, stones, findings_of):
    assert findings_of(check, stones) == []
    assert findings_of(check, TicTacToe) == []


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("num_seats", 0, "num_seats must be an integer >= 1, got 0"),
        ("num_actions", 2.5, "num_actions must be an integer >= 1, got 2.5"),
        ("max_moves", None, "max_moves must be an integer >= 1, got None"),
        ("num_seats", True, "num_seats must be an integer >= 1, got True"),
        ("min_return", None, "min_return must be finite, got None"),
        ("min_return", float("-inf"), "min_return must be finite, got -inf"),
        ("solved_value", (1.0,), "solved_value must be 2 finite scores, got (1.0,)"),
        ("rules", lambda self: None, "rules() must be a string, got None"),
    ],
)
def test_a_false_declaration_is_named(name, value, wrong, stones, context_of):
    context = context_of(stones)
    vars_of_liar = {name: value}
    liar = type("Liar", (stones,), vars_of_liar)()
    object.__setattr__(context, "game", liar)

    assert [str(finding) for finding in find(context, CHECKS["declaration"])] == [wrong]


def test_an_endless_game_is_caught_where_it_should_have_ended(stones, findings_of):
    class Endless(stones):
        max_moves = 3

    (found, *_) = findings_of("playthrough", Endless)
    assert found.startswith("still running after max_moves = 3 moves\n    at seed ")
    assert found.endswith("stones")


def test_a_running_game_without_moves_is_caught(stones, findings_of):
    class Stuck(stones):
        def legal(self, state):
            return [] if state[0] == 1 else super().legal(state)

    (found, *_) = findings_of("playthrough", Stuck)
    assert "legal() must not be empty while returns() is None" in found
    assert found.endswith(": 1 stones")


def test_scores_of_a_game_that_goes_on_are_caught(stones, findings_of):
    class Early(stones):
        def returns(self, state):
            return (1.0, -1.0) if state[0] < 3 else None

    (found, *_) = findings_of("terminal_states", Early)
    assert found.startswith("legal() must be empty once the game is over, got [0")


def test_a_state_that_cannot_be_hashed_is_caught(stones, findings_of):
    class Lists(stones):
        def initial(self, rng):
            return list(super().initial(rng))

    (found, *_) = findings_of("playthrough", Lists)
    assert found.startswith("a state must be hashable, got a list")


def test_an_action_that_cannot_be_applied_is_caught_with_its_position(stones, findings_of):
    class Rejects(stones):
        def apply(self, state, action):
            if state[0] == 4 and action == 1:
                raise KeyError("no four")
            return super().apply(state, action)

    for check in ("playthrough", "legal_actions"):
        (found, *_) = findings_of(check, Rejects)
        assert found.startswith("legal() lists action 1, but apply() raises KeyError: 'no four'")
        assert found.endswith(": 4 stones")


def test_findings_replay_to_their_position(stones, context_of):
    class Rejects(stones):
        def apply(self, state, action):
            if state[0] == 4 and action == 1:
                raise KeyError("no four")
            return super().apply(state, action)

    context = context_of(Rejects)
    (found, *_) = find(context, CHECKS["playthrough"])
    assert replay(make_game(context.game_id), found.seed, found.moves)[-1].state[0] == 4


def test_an_action_that_changes_nothing_is_caught(stones, findings_of):
    class Passes(stones):
        num_actions = 3

        def legal(self, state):
            return [*super().legal(state), 2] if state[0] == 3 else super().legal(state)

        def apply(self, state, action):
            return state if action == 2 else super().apply(state, action)

    (found, *_) = findings_of("legal_actions", Passes, num_games=100)
    assert found.startswith("legal() lists action 2, but apply() changes nothing\n    at seed ")
    assert found.endswith(": 3 stones")


def test_an_action_that_breaks_the_game_is_caught_though_nobody_played_it(stones, findings_of):
    class Breaks(stones):
        num_actions = 100

        def legal(self, state):
            return list(range(100)) if state[0] > 2 else super().legal(state)

        def apply(self, state, action):
            return (state[0] - 1, 7) if action == 99 else super().apply(state, action % 2)

    (found, *_) = findings_of("legal_actions", Breaks, num_games=40)
    assert found.startswith("ValueError: seat() must be in 0..1, got 7")
    assert ", 99]: " in found or "moves [99]: " in found


def test_a_game_that_cannot_start_is_one_finding(stones, context_of):
    class Broken(stones):
        def seat(self, state):
            return 2

    found = {name: find(context_of(Broken), CHECKS[name]) for name in RULES}
    assert {name for name in found if found[name]} == {"playthrough"}
    assert "seat() must be in 0..1, got 2" in str(found["playthrough"][0])


def test_an_action_listed_twice_is_caught(stones, findings_of):
    class Twice(stones):
        def legal(self, state):
            return super().legal(state) * 2

    (found, *_) = findings_of("legal_actions", Twice)
    assert found.startswith("legal() lists action 0 more than once")


def test_an_action_out_of_range_is_caught(stones, findings_of):
    class Beyond(stones):
        def legal(self, state):
            return [0, 2]

    (found, *_) = findings_of("playthrough", Beyond)
    assert "legal() must be in 0..1, got (0, 2)" in found


def test_scores_that_flip_after_the_end_are_caught(stones, findings_of):
    class Flips(stones):
        asked = 0

        def returns(self, state):
            scores = super().returns(state)
            if scores is None:
                return None
            type(self).asked += 1
            return scores if self.asked % 2 else scores[::-1]

    (found, *_) = findings_of("terminal_states", Flips)
    assert "and asked once more" in found
    assert found.endswith(": 0 stones")


def test_rules_that_remember_are_caught(stones, findings_of):
    class Remembers(stones):
        extra = 0

        def apply(self, state, action):
            type(self).extra ^= 1
            return state[0] - action - 1, (1 - state[1]) if self.extra else state[1]

    (found, *_) = findings_of("purity", Remembers)
    assert found.startswith("apply() of action 0 must be a function of state and action")


def test_a_state_that_is_changed_in_place_is_caught(stones, findings_of):
    class Heap:
        def __init__(self, left, seat):
            self.left, self.seat = left, seat

        def __eq__(self, other):
            return (self.left, self.seat) == (other.left, other.seat)

        def __hash__(self):
            return hash((self.left, self.seat))

    class InPlace(stones):
        def initial(self, rng):
            return Heap(8, 0)

        def seat(self, state):
            return state.seat

        def legal(self, state):
            return [0] if state.left else []

        def apply(self, state, action):
            state.left, state.seat = state.left - 1, 1 - state.seat
            return Heap(state.left, state.seat)

        def returns(self, state):
            return None if state.left else (1.0, -1.0)

        def text(self, state, seat):
            return f"{state.left} stones"

    (found, *_) = findings_of("purity", InPlace)
    assert found.startswith("apply() ")


def test_texts_and_legal_moves_that_change_between_questions_are_caught(stones, findings_of):
    class Moody(stones):
        asked = 0

        def text(self, state, seat):
            type(self).asked += 1
            return f"{state[0]} stones, question {self.asked}"

    (found, *_) = findings_of("purity", Moody)
    assert found.startswith("text() for seat 0 of one state was '")


def test_a_score_below_the_lowest_is_caught(stones, findings_of):
    class Deep(stones):
        def returns(self, state):
            return None if state[0] else (-3.0, 3.0)

    (found, *_) = findings_of("scores", Deep)
    assert found.startswith("no score may be below min_return = -1.0, got [-3.0, 3.0]")
    assert found.endswith(": 0 stones")


def test_a_game_that_nobody_ever_wins_is_caught(stones, findings_of):
    class Draws(stones):
        def returns(self, state):
            return None if state[0] else (0.0, 0.0)

    class Together(Draws):
        def forfeit(self, seat):
            return (-1.0, -1.0)

    (found,) = findings_of("scores", Draws)
    assert found.startswith("returns() was 0 for every seat in all of 20 random games")
    assert findings_of("scores", Draws, num_games=5) == []
    assert findings_of("scores", Together) == []


def test_a_zero_sum_game_that_sometimes_is_not_is_caught(stones, findings_of):
    class Generous(stones):
        def initial(self, rng):
            return (*super().initial(rng), 0)

        def apply(self, state, action):
            return (*super().apply(state[:2], action), state[2] + 1)

        def returns(self, state):
            if state[0]:
                return None
            return (1.0, 0.5) if state[2] == 5 else super().returns(state)

    (found, *_) = findings_of("scores", Generous, num_games=60)
    assert "but are [1.0, 0.5] here" in found


@pytest.mark.parametrize(
    ("scores", "wrong"),
    [
        ((0.0, 0.0), "forfeit(0) must give the seat min_return = -1.0, got (0.0, 0.0)"),
        ((-1.0, 0.5), "forfeit(0) must sum to 0, as the game's scores do, got (-1.0, 0.5)"),
        ((-1.0,), "forfeit(0) must be 2 finite scores, got (-1.0,)"),
    ],
)
def test_a_forfeit_that_pays_is_caught(scores, wrong, stones, findings_of):
    class Pays(stones):
        def forfeit(self, seat):
            return scores

    assert findings_of("forfeits", Pays)[0] == wrong


def test_a_cooperative_game_that_blames_one_seat_is_caught(stones, findings_of):
    class Together(stones):
        min_return = 0.0

        def returns(self, state):
            return None if state[0] else (1.0, 1.0)

        def forfeit(self, seat):
            return (0.0, 1.0) if seat == 0 else (1.0, 0.0)

    (found, *_) = findings_of("forfeits", Together)
    assert found == "forfeit(0) must score all seats alike, as the game does, got (0.0, 1.0)"


def test_built_in_contexts_hold_whole_games():
    context = make_context("earl/TicTacToe-v0", {}, num_games=5, seed=3)
    assert all(play.positions[-1].returns is not None for play in context.plays)
