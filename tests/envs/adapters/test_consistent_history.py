"""Hidden parts are drawn anew, shown parts stay."""

from collections import Counter

import numpy as np
import pytest
from earl_envs.adapters.consistent_history import MAX_STATES, consistent_history

pyspiel = pytest.importorskip("pyspiel")


def replay(game, history):
    state = game.new_initial_state()
    for action in history:
        state.apply_action(action)
    return state


def draw(game, history, seat, seed=0):
    return consistent_history(
        game.new_initial_state(),
        history,
        seat,
        view=lambda state: state.information_state_string(seat),
        rng=np.random.default_rng(seed),
    )


def test_the_hidden_die_varies_and_the_seen_die_and_bids_stay():
    game = pyspiel.load_game("liars_dice")
    history = (2, 4, 7)  # dice of player 0 and player 1, then a bid of player 0
    drawn = {draw(game, history, 0, seed) for seed in range(60)}
    assert {first for first, _, _ in drawn} == {2}
    assert {second for _, second, _ in drawn} == set(range(6))
    assert {bid for _, _, bid in drawn} == {7}


@pytest.mark.parametrize(("name", "seat"), [("phantom_ttt", 0), ("phantom_ttt", 1)])
def test_every_step_looks_the_same(name, seat):
    game = pyspiel.load_game(name)
    history = (4, 0, 0, 8, 4, 2, 6)  # player 1 walks into the taken centre
    views = [replay(game, history[:n]).information_state_string(seat) for n in range(8)]
    other_found = False
    for seed in range(20):
        drawn = draw(game, history, seat, seed)
        assert [replay(game, drawn[:n]).information_state_string(seat) for n in range(8)] == views
        other_found |= drawn != history
    assert other_found


def test_likely_chance_is_drawn_as_often_as_it_happens():
    class Biased:
        """One chance node with outcome 1 three times as likely as outcome 0."""

        def __init__(self, history=()):
            self.history = history

        def current_player(self):
            return -1 if self.history == () else 0

        def is_chance_node(self):
            return self.history == ()

        def is_terminal(self):
            return False

        def chance_outcomes(self):
            return [(0, 0.25), (1, 0.75)]

        def legal_actions(self):
            return [0]

        def child(self, action):
            return Biased((*self.history, action))

    rng = np.random.default_rng(0)
    drawn = Counter(
        consistent_history(Biased(), [0], 0, view=lambda state: "", rng=rng)[0] for _ in range(2000)
    )
    assert 1400 < drawn[1] < 1600


def test_a_search_without_end_is_given_up():
    class Late:
        """Thirty moves that nobody sees, and then all of them shown."""

        def __init__(self, history=()):
            self.history = history

        def current_player(self):
            return 1

        def is_chance_node(self):
            return False

        def is_terminal(self):
            return False

        def legal_actions(self):
            return [0, 1]

        def child(self, action):
            return Late((*self.history, action))

    with pytest.raises(ValueError, match=f"within {MAX_STATES} states"):
        consistent_history(
            Late(),
            [0] * 30,
            0,
            view=lambda state: str(state.history) if len(state.history) == 30 else "",
            rng=np.random.default_rng(0),
        )
