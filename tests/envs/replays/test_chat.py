"""From an episode by text to what is kept of it."""

import pytest
from earl_envs import EndReason, make_game
from earl_envs.replays.chat import chat_episode
from earl_envs.replays.episode import EpisodeRecord
from earl_envs.text.chat_env import ChatEnv

GAME_ID = "earl/TicTacToe-v0"


def test_finished_episode_is_kept_with_all_replies():
    env = ChatEnv(make_game(GAME_ID), illegal="retry(1)")
    env.reset(seed=4)
    for reply in ("hm [1]", "what", "[4]", "[2]"):
        env.step(reply)
    env.play(4)
    env.step("<answer>3</answer>")
    episode = chat_episode(env, GAME_ID, players=["a", "b"])
    assert episode.replies == ("hm [1]", "what", "[4]", "[2]", "<answer>3</answer>")
    assert (episode.players, episode.returns) == (("a", "b"), (1.0, -1.0))
    assert (episode.end_reason, episode.game.seed) == (EndReason.FINISHED, 4)
    assert EpisodeRecord.from_json(episode.to_json()) == episode
    assert episode.positions()[-1].state == env.state


def test_forfeit_keeps_the_reply_and_the_parameters_of_the_game():
    params = {"rows": 4, "columns": 5}
    env = ChatEnv(make_game("earl/ConnectFour-v0", **params))
    env.reset(seed=0)
    env.step("no idea")
    episode = chat_episode(env, "earl/ConnectFour-v0", players=["a", "b"], **params)
    assert (episode.end_reason, episode.replies) == (EndReason.UNPARSABLE, ("no idea",))
    assert episode.game.params == params
    assert episode.detail == env.detail


def test_episodes_that_run_and_wrong_numbers_of_players_are_refused():
    env = ChatEnv(make_game(GAME_ID))
    for _ in range(2):
        with pytest.raises(ValueError, match="an episode is kept when it is over"):
            chat_episode(env, GAME_ID, players=["a", "b"])
        env.reset(seed=0)
    env.fail(EndReason.OPPONENT_ERROR)
    with pytest.raises(ValueError, match=r"players must name 2 seats, got \['a'\]"):
        chat_episode(env, GAME_ID, players=["a"])
