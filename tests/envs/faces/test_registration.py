"""Games by name in Gymnasium and PettingZoo."""

import subprocess
import sys

import gymnasium
import pettingzoo
import pytest
from earl_envs.faces.gymnasium_env import GameEnv
from earl_envs.faces.gymnasium_text_env import GameTextEnv
from earl_envs.faces.gymnasium_vector import GameVectorEnv
from earl_envs.faces.pettingzoo_env import GameAECEnv, GameParallelEnv
from earl_envs.faces.registration import register_all, register_with_frameworks, text_id


def test_a_game_is_known_under_its_id_everywhere():
    register_with_frameworks("earl/TicTacToe-v0")
    assert isinstance(gymnasium.make("earl/TicTacToe-v0").unwrapped, GameEnv)
    assert isinstance(gymnasium.make("earl/TicTacToe-Text-v0").unwrapped, GameTextEnv)
    assert isinstance(gymnasium.make_vec("earl/TicTacToe-v0", num_envs=2), GameVectorEnv)
    assert isinstance(pettingzoo.make("aec", "earl/TicTacToe-v0"), GameAECEnv)
    assert isinstance(pettingzoo.make("parallel", "earl/TicTacToe-v0"), GameParallelEnv)


def test_games_of_openspiel_are_known_once_they_are_registered_by_id():
    pytest.importorskip("pyspiel")
    register_with_frameworks("openspiel/tic_tac_toe-v0")
    env = gymnasium.make("openspiel/tic_tac_toe-v0").unwrapped
    env.reset(seed=0)
    env.step(4)
    assert env.record().moves[0] == 4
    envs = gymnasium.make_vec("openspiel/tic_tac_toe-v0", num_envs=2)
    envs.reset(seed=0)
    envs.step([4, 5])
    assert [envs.record(index).moves[0] for index in range(2)] == [4, 5]
    aec = pettingzoo.make("aec", "openspiel/tic_tac_toe-v0")
    aec.reset(seed=0)
    assert aec.last()[0]["action_mask"].all()


def test_parameters_of_the_game_pass_through_make():
    env = gymnasium.make("faces/LastStone-v0", stones=3, seats=3)
    assert env.observation_space.shape == (3,)


def test_registering_again_changes_nothing():
    before = gymnasium.spec("earl/TicTacToe-v0")
    register_with_frameworks("earl/TicTacToe-v0")
    assert gymnasium.spec("earl/TicTacToe-v0") is before


def test_an_id_that_is_somebody_elses_is_not_taken_over():
    gymnasium.register("faces/Foreign-v0", "some.module:Env")
    with pytest.raises(ValueError, match=r"knows 'faces/Foreign-v0' already, as 'some.module:Env'"):
        register_with_frameworks("faces/Foreign-v0")
    assert gymnasium.spec("faces/Foreign-v0").entry_point == "some.module:Env"


def test_of_several_games_one_that_cannot_be_registered_is_left_out_with_a_warning():
    gymnasium.register("faces/Taken-v0", "some.module:Env")
    with pytest.warns(UserWarning, match="'faces/Taken-v0' is unknown to gymnasium.make: Gymn"):
        register_all(["faces/Taken-v0", "earl/Nim-v0"])
    assert gymnasium.spec("earl/Nim-v0").kwargs == {"game_id": "earl/Nim-v0"}


@pytest.mark.parametrize(
    ("game_id", "expected"),
    [("me/Game-v0", "me/Game-Text-v0"), ("me/A-v2-v13", "me/A-v2-Text-v13")],
)
def test_the_text_id(game_id, expected):
    assert text_id(game_id) == expected


def test_registering_loads_no_game_and_no_environment():
    code = (
        "import sys; from earl_envs.faces.registration import register_with_frameworks as r;"
        "r('earl/TicTacToe-v0'); print('\\n'.join(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert not loaded & {
        "earl_envs.faces.gymnasium_env",
        "earl_envs.games.tic_tac_toe",
        "numba",
        "textarena",
    }
