"""Reinforcement learning of language-model agents on multi-turn games."""

from earl_trainer.config import RunConfig
from earl_trainer.recipes import RECIPES

__all__ = ["RECIPES", "RunConfig"]
