"""What an episode is worth: the games' outcome, and what the run's own functions say."""

from collections.abc import Sequence

from earl_trainer.rewards.config import RewardConfig
from earl_trainer.types import EpisodeSummary


def rewards_of(episodes: Sequence[EpisodeSummary], config: RewardConfig) -> list[float | None]:
    """Reward each episode for the learner's seat: the games' outcome, less a penalty for forfeits.

    The penalty makes a reply that is no move worse than a lost game, which it otherwise equals.
    Outcome and penalty are means over the games that the episode was to have. What the run's own
    functions say is added. Episodes cut by a token limit get 0 if `config.truncation` says so.

    Returns:
        [E], None where a function has failed and the episode is not to be trained on.
    """
    return [_reward_of(episode, config) for episode in episodes]


def _reward_of(episode: EpisodeSummary, config: RewardConfig) -> float | None:
    judgement = episode.judgement
    if judgement is not None and judgement.bonus is None:
        return None
    if episode.truncated and config.truncation == "zero":
        return 0.0
    penalty = config.illegal_penalty * episode.num_forfeits / episode.start.num_games
    reward = config.game_weight * (episode.outcome - penalty)
    return reward if judgement is None or judgement.bonus is None else reward + judgement.bonus


def reply_rewards_of(
    episodes: Sequence[EpisodeSummary], config: RewardConfig
) -> list[Sequence[float]]:
    """Return what of each episode's reward belongs to one of its replies.

    Returns:
        [E] of [replies]; empty where functions speak of the whole episode only, or `truncation` has
        put 0 in the place of what they say.
    """
    return [
        ()
        if episode.judgement is None or (episode.truncated and config.truncation == "zero")
        else episode.judgement.parts
        for episode in episodes
    ]
