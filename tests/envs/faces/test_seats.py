"""What both PettingZoo environments are made of."""

import numpy as np
import pytest
from earl_envs.faces.seats import Seats


def test_agents_have_names_and_spaces_of_their_own():
    seats = Seats("faces/LastStone-v0", {"seats": 3})
    assert seats.names == ["player_0", "player_1", "player_2"]
    for seed, space in enumerate(seats.action_spaces.values()):
        space.seed(seed)
    draws = [[int(space.sample()) for _ in range(20)] for space in seats.action_spaces.values()]
    assert draws[0] != draws[1] != draws[2], "seeding one agent's space leaves the others alone"


@pytest.mark.parametrize(
    ("game_id", "name"),
    [("earl/TicTacToe-v0", "tictactoe_v0"), ("faces/LastStone-v0", "laststone_v0")],
)
def test_the_name_is_pettingzoos_kind_of_name(game_id, name):
    assert Seats(game_id, {}).metadata["name"] == name


def test_everybody_is_paid_at_the_end_only():
    seats = Seats("faces/LastStone-v0", {"stones": 2})
    seats.begin(0, {"options": 1})
    seats.act(np.int32(0))
    assert seats.reward == {"player_0": 0.0, "player_1": 0.0}
    seats.act(0)
    assert seats.reward == {"player_0": -1.0, "player_1": 1.0}
    assert seats.info("player_0")["winner"] == 1


def test_an_action_after_rules_that_raised_changes_nothing():
    seats = Seats("faces/Faulty-v0", {"method": "planes"})
    episode = seats.begin(0, None)
    seats.act(2)
    seats.act(2)
    assert not seats.observe("player_0")["observation"].any()
    seats.act(2)
    assert (episode.end_reason, episode.moves) == ("env_error", [2, 2])
