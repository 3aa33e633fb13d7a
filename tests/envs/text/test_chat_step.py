"""What a reply leads to, told by equality of values."""

from earl_envs import make_game
from earl_envs.text.chat_env import ChatEnv
from earl_envs.text.chat_step import ChatStep


def test_a_played_move_has_nothing_wrong_with_it():
    env = ChatEnv(make_game("earl/TicTacToe-v0"))
    env.reset(seed=0)
    assert env.step("[3]") == ChatStep(action=2, failure=None, detail="", substituted=False)
