"""A match is played in parts, each game once."""

import pytest
from earl_envs import RandomOpponent
from earl_trainer.evaluation.playing import MatchPlan, play_match
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.rollout.starts import paired_starts
from earl_trainer.workers.team import Team


@pytest.fixture
def collector(tic_tac_toe, tiny_chat):
    return Collector(
        tic_tac_toe,
        game_id="earl/TicTacToe-v0",
        opponent=None,
        match_opponent=RandomOpponent(),
        chat=tiny_chat,
        max_context_tokens=256,
        max_reply_tokens=4,
    )


def test_all_games_are_played_so_many_at_a_time(collector, tic_tac_toe, tiny_chat):
    policy, shown = ScriptedPolicy(RandomOpponent(), game=tic_tac_toe, chat=tiny_chat), []
    plan = MatchPlan(seed=3, num_games=10, num_seats=2, games_at_once=4)
    episodes = play_match(collector, policy, plan, Team(), shown.append)

    starts = paired_starts(3, num_games=10, num_seats=2)
    assert episodes == collector.collect(policy, starts).summaries
    counts = [text.split(" ") for text in shown]
    assert {num_played for num_played, *_ in counts} == {"0", "4", "8"}
    assert max(int(num_running) for _, _, num_running, _ in counts) == 4
