"""The phase of a run that learns a reward model."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from earl_trainer.config import RunConfig
from earl_trainer.preference.load import load_pairs
from earl_trainer.preference.methods import Method, Reference, Source
from earl_trainer.rewards.bradley_terry import BradleyTerryObjective
from earl_trainer.rewards.config import RewardModelConfig
from earl_trainer.rollout.chat import ChatFormat

REWARD_MODEL: Final = "reward-model"
"""Name of the phase, and of the folder where the model is."""
PAIRS: Final = Method(name=REWARD_MODEL, source=Source.PAIRS, reference=Reference.NONE)
"""What the phase learns from."""


def make_objective(rules: RewardModelConfig) -> BradleyTerryObjective:
    """Make the phase's loss."""
    return BradleyTerryObjective(margin=rules.margin, centring=rules.centring)


def labelling(config: RunConfig) -> RunConfig:
    """Return the config by which pairs are made: what the rules say is what is preferred.

    In reinforcement learning the game may count nothing, so that the learned reward has its place.
    """
    return replace(
        config,
        reward=replace(config.reward, game_weight=1.0),
        preference=replace(config.preference, data=config.reward_model.data),
    )


def check_pairs(config: RunConfig, chat: ChatFormat) -> None:
    """Refuse a data set that cannot be read, or contexts that are too long.

    Raises:
        ValueError: Naming the line and what is wrong with it.
    """
    if config.reward_model.data:
        limit = config.rollout.max_context_tokens
        load_pairs(Path(config.reward_model.data), chat, max_tokens=limit)
