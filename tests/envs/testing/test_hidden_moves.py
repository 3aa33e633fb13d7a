"""Games that show a seat what it must not see, or hide it from nobody's search, are caught."""

import pytest
from earl_envs import Game
from earl_envs.games.hanabi import Hanabi
from earl_envs.games.kuhn_poker import KuhnPoker
from earl_envs.games.tic_tac_toe import TicTacToe


def test_honest_games_pass(stones, sealed, findings_of):
    for game_class in (stones, sealed, TicTacToe, KuhnPoker, Hanabi):
        assert findings_of("hidden_moves", game_class) == []


def test_public_moves_of_a_game_with_hidden_cards_may_be_listed(findings_of):
    own = {name: value for name, value in vars(KuhnPoker).items() if name != "planes"}
    listed = type("WithoutPlanes", (Game,), own)
    assert listed().planes(((0, 1, 2), ()), 0) is None
    assert findings_of("hidden_moves", listed) == []


def test_moves_that_lead_to_one_state_are_no_secret(stones, findings_of):
    class Idle(stones):
        def apply(self, state, action):
            return state[0] - 1, 1 - state[1]

    assert findings_of("hidden_moves", Idle) == []


def test_a_list_of_moves_that_shows_a_sealed_choice_is_caught(sealed, findings_of):
    class Listed(sealed):
        planes = Game.planes

    (found,) = findings_of("hidden_moves", Listed)
    assert found.startswith("seat 1 cannot see whether seat 0 chose 0 or 1, but without planes it ")
    assert "give `planes`" in found


def test_a_sealed_choice_that_search_may_peek_at_is_caught(sealed, findings_of):
    class Peeks(sealed):
        resample = Game.resample

    (found,) = findings_of("hidden_moves", Peeks)
    assert "seat 0 chose 0 or 1, but resample() redraws nothing" in found


@pytest.mark.parametrize("num_seats", [3, 4])
def test_a_choice_is_followed_past_other_seats_to_the_one_that_must_not_see_it(
    num_seats, sealed, findings_of
):
    class Several(sealed):
        planes = Game.planes

        def legal(self, state):
            return [0, 1, 2] if len(state) < self.num_seats else []

        def returns(self, state):
            if len(state) < self.num_seats:
                return None
            return [float(choice == max(state)) - 1 for choice in state]

        def text(self, state, seat):
            # Everybody sees what is chosen but the last seat.
            hidden = seat == self.num_seats - 1 and len(state) < self.num_seats
            return f"{len(state)} chose" if hidden else f"chosen: {list(state)}"

        def resample(self, state, seat, rng):
            hidden = seat == self.num_seats - 1 and len(state) < self.num_seats
            return tuple(rng.integers(3, size=len(state)).tolist()) if hidden else state

    Several.num_seats = Several.max_moves = num_seats
    (found, *_) = findings_of("hidden_moves", Several)
    assert found.startswith(f"seat {num_seats - 1} cannot see whether seat 0 chose 0 or 1")
