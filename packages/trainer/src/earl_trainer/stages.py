"""The stages that a step goes through."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import torch
from earl_dispatch import Columns
from transformers import PreTrainedModel

from earl_trainer.experience.estimator import Estimator, Untouched
from earl_trainer.experience.mixing import REPLAY_FILE, Experience
from earl_trainer.experience.transfer import LearnerFeed
from earl_trainer.experience.valued_prepare import PreparationStage
from earl_trainer.guards.reward_normaliser import RewardNormaliser
from earl_trainer.learner.critic import ActorCritic
from earl_trainer.learner.learner import AbsentLearner, Learner
from earl_trainer.preference.anchor import ANCHOR_FILE, Anchor
from earl_trainer.rewards.config import RewardConfig
from earl_trainer.rewards.episodes import reply_rewards_of
from earl_trainer.rollout.collection import Collection
from earl_trainer.run_state import RunState
from earl_trainer.types import EpisodeSummary

LEARNER_FILE: Final = "learner.pt"
SAVED_FILES: Final = (LEARNER_FILE, REPLAY_FILE, ANCHOR_FILE)
"""Of a checkpoint: what `Stages.save` writes."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a step that belong to one phase, and what they keep from step to step."""

    collection: Collection
    preparer: PreparationStage
    estimator: Estimator | Untouched
    normaliser: RewardNormaliser
    experience: Experience
    feed: LearnerFeed
    learner: Learner | ActorCritic | AbsentLearner
    critic: PreTrainedModel | None
    """What to expect, where the algorithm asks."""
    anchor: Anchor | None
    """Whom the learner plays against itself with, where the method does."""

    def estimate(
        self,
        columns: Columns,
        episodes: Sequence[EpisodeSummary],
        rewards: Sequence[float | None],
        config: RewardConfig,
    ) -> Columns:
        """Estimate advantages from rewards, normalised first where the run asks for it.

        Args:
            columns: Of the episodes.
            episodes: [E].
            rewards: [E].
            config: The rules that made the rewards.
        """
        normalised, of_replies = normalise_rewards(
            self.normaliser, rewards, reply_rewards_of(episodes, config)
        )
        return self.estimator.estimate(columns, episodes, normalised, of_replies)

    @property
    def preparation_figures(self) -> dict[str, float]:
        """What the stages between playing and learning report of the last step."""
        return {
            **self.preparer.figures,
            **self.normaliser.figures,
            **self.estimator.figures,
            **self.experience.figures,
        }

    def complete_step(self, state: RunState) -> None:
        """Keep what the next step depends on."""
        self.experience.commit()
        state.rewards = self.normaliser.statistics
        state.collection = self.collection.to_dict()
        state.preparation = self.preparer.to_dict()
        state.estimation = self.estimator.to_dict()

    def save(self, folder: Path) -> None:
        """Write into a checkpoint what is too large for the run's state."""
        self.experience.save(folder)
        if self.anchor is not None:
            self.anchor.save(folder)
        if not isinstance(self.learner, AbsentLearner):
            torch.save(self.learner.state_dict(), folder / LEARNER_FILE)

    def close(self) -> None:
        """End what goes on between steps."""
        self.collection.close()


def normalise_rewards(
    normaliser: RewardNormaliser,
    rewards: Sequence[float | None],
    of_replies: Sequence[Sequence[float]],
) -> tuple[Sequence[float | None], Sequence[Sequence[float]]]:
    """Normalise a step's rewards, and what of them belongs to replies.

    Both are divided by one spread. A mean that is taken off belongs to no reply.

    Args:
        normaliser: Takes the rewards in.
        rewards: [E].
        of_replies: [E] of [replies].
    """
    normalised = normaliser.normalise(rewards)
    if not normaliser.figures:
        return normalised, of_replies
    (unit,) = normaliser.statistics.normalise([1.0], centre=False)
    assert unit is not None
    return normalised, [[unit * part for part in parts] for parts in of_replies]
