"""Episodes rewarded by learned models, in the process that prepares them."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from transformers import PreTrainedModel

from earl_trainer.rewards.ensemble import ENSEMBLES
from earl_trainer.rewards.model import score_contexts
from earl_trainer.rewards.outcome import RewardOutcome
from earl_trainer.types import Episode

OWN = "own"
"""Stands for the reward model that the run has learned itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelWeight:
    """A reward model, and what its rewards are multiplied with."""

    folder: str
    """Or `OWN`."""
    weight: float


def parse_models(texts: Sequence[str]) -> list[ModelWeight]:
    """Read `folder=weight`; without a weight it is 1.

    Raises:
        ValueError: If one is written otherwise.
    """
    return [_parse(text) for text in texts]


def _parse(text: str) -> ModelWeight:
    folder, separator, weight_text = text.rpartition("=")
    if not separator:
        folder, weight_text = text, "1"
    try:
        weight = float(weight_text)
    except ValueError:
        weight = math.nan
    if not folder or not math.isfinite(weight):
        raise ValueError(
            f"a reward model is written folder=weight with a finite weight, got {text!r}"
        )
    return ModelWeight(folder=folder, weight=weight)


@final
class ModelScorer:
    """Rewards episodes by what an ensemble of reward models says at their ends.

    Args:
        models: Each with what its rewards are multiplied with before they are put together.
        ensemble: A name of `ENSEMBLES`.
        doubt: Its factor.
        max_tokens: Tokens in one forward pass.
    """

    name = "models"
    weight = 1.0

    def __init__(
        self,
        models: Sequence[tuple[PreTrainedModel, float]],
        *,
        ensemble: str,
        doubt: float,
        max_tokens: int,
    ) -> None:
        self._models = models
        self._ensemble = ENSEMBLES[ensemble]
        self._doubt = doubt
        self._max_tokens = max_tokens

    def score(self, episodes: Sequence[Episode]) -> list[RewardOutcome]:
        """Return the reward of each episode, read at the end of its last context.

        It may be no finite number; `add_scores` refuses that of any scorer.
        """
        start_s = time.perf_counter()
        last = [episode.turns[-1] for episode in episodes]
        contexts = [(*turn.prompt_ids, *turn.reply_ids) for turn in last]
        rewards = torch.tensor([
            [
                weight * reward
                for reward in score_contexts(model, contexts, max_tokens=self._max_tokens)
            ]
            for model, weight in self._models
        ])
        took_s = (time.perf_counter() - start_s) / len(episodes)
        values = self._ensemble(rewards, self._doubt).tolist()
        return [RewardOutcome(value=value, took_s=took_s) for value in values]

    def close(self) -> None:
        """Do nothing: models go with this."""
