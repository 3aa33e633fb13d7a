from dataclasses import replace

from earl_envs import EndReason
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.episodes import reply_rewards_of, rewards_of
from earl_trainer.rewards.outcome import Judgement


def test_a_forfeit_costs_the_penalty_on_top_of_the_lost_game(make_summary):
    episodes = [
        make_summary(outcome=-1.0),
        make_summary(outcome=-1.0, end_reason=EndReason.ILLEGAL_MOVE),
        make_summary(outcome=-1.0, end_reason=EndReason.UNPARSABLE),
        make_summary(outcome=0.0),
    ]
    assert rewards_of(episodes, RewardConfig(illegal_penalty=0.25)) == [-1.0, -1.25, -1.25, 0.0]


def test_the_penalty_is_taken_per_game(make_summary):
    won, lost = (1.0, EndReason.FINISHED), (-1.0, EndReason.ILLEGAL_MOVE)
    episodes = [
        make_summary(games=[won, lost, won, lost]),
        make_summary(games=[won, (0.0, EndReason.CONTEXT_LIMIT)], num_games=4),
    ]

    # Of the second the first game was won, the next cut, and two never began: they count as lost.
    assert rewards_of(episodes, RewardConfig(illegal_penalty=0.5)) == [-0.25, -0.25]


def judged(episode, bonus):
    return replace(episode, judgement=Judgement(outcomes={}, bonus=bonus))


def test_what_functions_say_is_added_to_the_weighted_game(make_summary):
    won = make_summary(outcome=1.0)
    forfeit = make_summary(outcome=-1.0, end_reason=EndReason.ILLEGAL_MOVE)
    cut = make_summary(outcome=0.0, end_reason=EndReason.CONTEXT_LIMIT)
    episodes = [judged(won, 0.25), judged(forfeit, 2.0), judged(cut, 5.0), judged(won, None), won]
    config = RewardConfig(game_weight=0.5)
    assert rewards_of(episodes, config) == [0.75, 1.25, 5.0, None, 0.5]
    zeroed = RewardConfig(game_weight=0.5, truncation="zero")
    assert rewards_of(episodes, zeroed) == [0.75, 1.25, 0.0, None, 0.5]


def test_what_belongs_to_replies_counts_unless_a_cut_episode_is_worth_nothing(make_summary):
    won, cut = make_summary(), make_summary(end_reason=EndReason.CONTEXT_LIMIT)
    told = Judgement(outcomes={}, bonus=3.0, parts=(1.0, 2.0))
    episodes = [replace(won, judgement=told), replace(cut, judgement=told), judged(won, None), won]
    assert reply_rewards_of(episodes, RewardConfig()) == [(1.0, 2.0), (1.0, 2.0), (), ()]
    zeroed = RewardConfig(truncation="zero")
    assert reply_rewards_of(episodes, zeroed) == [(1.0, 2.0), (), (), ()]
