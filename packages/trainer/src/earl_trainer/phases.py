"""The phases of a run: the same loop with another player, algorithm and schedule."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from transformers import PreTrainedModel

from earl_trainer.algorithms.aggregation import AGGREGATIONS
from earl_trainer.algorithms.losses import LossSettings
from earl_trainer.algorithms.off_policy import CORRECTIONS, Correction
from earl_trainer.algorithms.table import ALGORITHMS, Algorithm
from earl_trainer.config import RunConfig
from earl_trainer.experience.packing import PACKINGS
from earl_trainer.experience.prepare import Preparer
from earl_trainer.learner.learner import Learner, UpdateSettings
from earl_trainer.learner.objective import PolicyObjective
from earl_trainer.learner.optimizer import MasterAdamW, learning_rate
from earl_trainer.rollout.games_schedule import GamesSchedule
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.rollout.starts import grouped_starts, self_play_starts
from earl_trainer.seeding import derive_seed
from earl_trainer.types import EpisodeStart
from earl_trainer.workers.group import ALONE, Group

WARMUP, RL = "warmup", "rl"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """A stretch of steps that differ only in their step number."""

    name: str
    first_step: int
    num_steps: int
    evaluation: str
    """Name of the match that is played before the phase's first step."""
    policy: ReplyPolicy
    """Plays the learner's seats."""
    self_play: bool
    """Whether these are all seats."""
    games: GamesSchedule
    """How many the episodes play in one context."""
    algorithm: Algorithm
    correction: Correction
    kl_coefficient: float
    num_episodes: int
    group_size: int
    peak_lr: float
    lr_warmup_steps: int

    @property
    def end_step(self) -> int:
        """The first step after the phase."""
        return self.first_step + self.num_steps

    @property
    def needs_old_logprobs(self) -> bool:
        """Whether the loss compares with the weights before the step's first update."""
        return self.algorithm.needs_old_logprobs and self.correction.needs_old_logprobs

    @property
    def needs_reference(self) -> bool:
        """Whether the loss compares with the policy from before the phase."""
        return self.algorithm.needs_old_logprobs and self.kl_coefficient > 0.0

    def starts(self, seed: int, step: int, *, num_seats: int) -> list[EpisodeStart]:
        """Plan the episodes of one step."""
        plan = self_play_starts if self.self_play else grouped_starts
        seats_at_table = num_seats if self.self_play else 1
        games = self.games.of_groups(
            step - self.first_step,
            num_groups=self.num_episodes // (self.group_size * seats_at_table),
            num_seats=num_seats // seats_at_table,
        )
        return plan(
            derive_seed(seed, self.name),
            step=step,
            num_episodes=self.num_episodes,
            group_size=self.group_size,
            num_seats=num_seats,
            num_games=games,
        )

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        return learning_rate(
            step - self.first_step,
            num_steps=self.num_steps,
            peak=self.peak_lr,
            warmup_steps=self.lr_warmup_steps,
        )

    def make_preparer(
        self, config: RunConfig, model: PreTrainedModel, reference: PreTrainedModel | None
    ) -> Preparer:
        """Make the preparation stage: it scores with the models whose log-probs the loss needs."""
        scorers: dict[str, PreTrainedModel] = {}
        if self.needs_old_logprobs:
            scorers["old_logprobs"] = model
        if reference is not None:
            scorers["reference_logprobs"] = reference
        return Preparer(
            scorers,
            temperature=config.rollout.temperature,
            max_tokens=config.learner.max_microbatch_tokens,
        )

    def make_learner(
        self, config: RunConfig, model: PreTrainedModel, workers: Group = ALONE
    ) -> Learner:
        """Make the update stage, with an optimizer that has seen nothing yet."""
        learner = config.learner
        return Learner(
            model,
            MasterAdamW(
                model, betas=(learner.beta1, learner.beta2), weight_decay=learner.weight_decay
            ),
            PolicyObjective(
                function=self.algorithm.loss,
                settings=LossSettings(
                    clip_low=config.algorithm.clip_low,
                    clip_high=config.algorithm.clip_high,
                    kl_coefficient=self.kl_coefficient,
                    correction=self.correction,
                    max_weight=config.algorithm.max_weight,
                    on_larger_weight=config.algorithm.on_larger_weight,
                ),
                aggregation=AGGREGATIONS[config.algorithm.aggregation],
                temperature=config.rollout.temperature,
            ),
            UpdateSettings(
                max_microbatch_tokens=learner.max_microbatch_tokens,
                max_grad_norm=learner.max_grad_norm,
                packing=PACKINGS[learner.packing],
            ),
            workers,
        )


def plan_phases(config: RunConfig, policies: Mapping[str, ReplyPolicy]) -> tuple[Phase, ...]:
    """Lay the run's phases one after the other.

    Args:
        config: The run.
        policies: Who plays in `WARMUP` and in `RL`.
    """
    most_games, ramp_steps = config.rollout.games_per_episode, config.rollout.games_ramp_steps
    warmup = Phase(
        name=WARMUP,
        first_step=0,
        num_steps=config.warmup.num_steps,
        evaluation="initial",
        policy=policies[WARMUP],
        self_play=config.self_play,
        # Where games are added later on, there is one to begin with.
        games=GamesSchedule(most=1 if ramp_steps else most_games),
        algorithm=ALGORITHMS["sft"],
        correction=CORRECTIONS["none"],
        kl_coefficient=0.0,
        num_episodes=config.warmup.num_episodes,
        group_size=1,
        peak_lr=config.warmup.lr,
        lr_warmup_steps=config.warmup.lr_warmup_steps,
    )
    reinforcement = Phase(
        name=RL,
        first_step=warmup.end_step,
        num_steps=config.learner.num_steps,
        evaluation="before",
        policy=policies[RL],
        self_play=config.self_play,
        games=GamesSchedule(most=most_games, ramp_steps=ramp_steps),
        algorithm=ALGORITHMS[config.algorithm.name],
        correction=CORRECTIONS[config.correction],
        kl_coefficient=config.algorithm.kl_coefficient,
        num_episodes=config.rollout.num_episodes,
        group_size=config.rollout.group_size,
        peak_lr=config.learner.lr,
        lr_warmup_steps=config.learner.lr_warmup_steps,
    )
    return warmup, reinforcement


def freeze_copy(model: PreTrainedModel) -> PreTrainedModel:
    """Copy a model as a reference that is never trained."""
    frozen = copy.deepcopy(model)
    frozen.requires_grad_(requires_grad=False)
    return frozen
