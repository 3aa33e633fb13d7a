"""The phases of a run: the same loop with another player, algorithm and schedule."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import final

from earl_trainer.algorithms.off_policy import CORRECTIONS, Correction
from earl_trainer.algorithms.table import ALGORITHMS, Algorithm
from earl_trainer.config import RunConfig
from earl_trainer.learner.optimizer import learning_rate
from earl_trainer.preference.methods import METHODS, Method, Reference
from earl_trainer.rewards.learning import PAIRS, REWARD_MODEL
from earl_trainer.rollout.games_schedule import GamesSchedule
from earl_trainer.rollout.policies import ReplyPolicy, ScriptedPolicy
from earl_trainer.rollout.starts import add_greedy, grouped_starts, self_play_starts
from earl_trainer.seeding import derive_seed
from earl_trainer.types import EpisodeStart

WARMUP, RL, PREFERENCE = "warmup", "rl", "preference"
GUARDED = (RL, PREFERENCE)
"""Phases that guards watch; a run has one of them."""
TEACHER = "teacher"
"""Who plays in `PREFERENCE` where the learner is shown games."""


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
    """That are trained, of one step."""
    group_size: int
    peak_lr: float
    lr_warmup_steps: int
    method: Method | None = None
    """How to learn from something else than rewards; the algorithm is then imitation."""
    attempt: int = 0
    """How often the phase was sent back to a checkpoint; every attempt plays other games."""

    @property
    def end_step(self) -> int:
        """The first step after the phase."""
        return self.first_step + self.num_steps

    @property
    def num_played(self) -> int:
        """Episodes of one step, with those that the others are compared with."""
        num_groups = self.num_episodes // self.group_size
        return self.num_episodes + (num_groups if self.algorithm.needs_greedy else 0)

    @property
    def needs_old_logprobs(self) -> bool:
        """Whether the update compares with the weights before the step's first one."""
        weighs = self.algorithm.needs_old_logprobs or self.correction.weighted
        return self.algorithm.corrects_itself or (weighs and self.correction.needs_old_logprobs)

    @property
    def needs_reference(self) -> bool:
        """Whether the update compares with the policy from before the phase."""
        if self.method is not None:
            return self.method.reference is Reference.BEFORE
        return self.algorithm.reinforces and self.kl_coefficient > 0.0

    @property
    def asks_engine(self) -> bool:
        """Whether its steps generate anything, which takes the newest weights."""
        return not isinstance(self.policy, ScriptedPolicy)

    def starts(self, seed: int, step: int, *, num_seats: int) -> list[EpisodeStart]:
        """Plan the episodes of one step."""
        plan = self_play_starts if self.self_play else grouped_starts
        seats_at_table = num_seats if self.self_play else 1
        games = self.games.of_groups(
            step - self.first_step,
            num_groups=self.num_episodes // (self.group_size * seats_at_table),
            num_seats=num_seats // seats_at_table,
        )
        stream = (self.name, "attempt", self.attempt) if self.attempt else (self.name,)
        starts = plan(
            derive_seed(seed, *stream),
            step=step,
            num_episodes=self.num_episodes,
            group_size=self.group_size,
            num_seats=num_seats,
            num_games=games,
        )
        return add_greedy(starts) if self.algorithm.needs_greedy else starts

    def progress(self, step: int) -> float:
        """Return the share of the phase that is done by a step: 0 at its first, 1 at its last."""
        return min(1.0, (step - self.first_step) / max(1, self.num_steps - 1))

    def lr(self, step: int) -> float:
        """Return the learning rate of a step."""
        return learning_rate(
            step - self.first_step,
            num_steps=self.num_steps,
            peak=self.peak_lr,
            warmup_steps=self.lr_warmup_steps,
        )


def plan_phases(
    config: RunConfig, policies: Mapping[str, ReplyPolicy], *, num_rollbacks: int = 0
) -> tuple[Phase, ...]:
    """Lay the run's phases one after the other.

    Args:
        config: The run.
        policies: Who plays in `WARMUP` and in `RL`; and as `TEACHER`, where there is to be one.
        num_rollbacks: How often guards have sent the run back so far.
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
    algorithm = ALGORITHMS[config.algorithm.name]
    reinforcement = Phase(
        name=RL,
        first_step=warmup.end_step,
        num_steps=config.learner.num_steps,
        evaluation="before",
        policy=policies[RL],
        self_play=config.self_play,
        games=GamesSchedule(most=most_games, ramp_steps=ramp_steps),
        algorithm=algorithm,
        correction=CORRECTIONS["none" if algorithm.corrects_itself else config.correction],
        kl_coefficient=config.algorithm.kl_coefficient,
        num_episodes=config.rollout.num_episodes,
        group_size=config.rollout.group_size,
        peak_lr=config.learner.lr * config.guards.rollback_lr**num_rollbacks,
        lr_warmup_steps=config.learner.lr_warmup_steps,
        attempt=num_rollbacks,
    )
    between = _reward_model_phases(config, warmup, reinforcement)
    reinforcement = replace(reinforcement, first_step=(warmup, *between)[-1].end_step)
    method = METHODS.get(config.preference.name)
    if method is None:
        return warmup, *between, reinforcement
    teacher = method.is_taught(config.preference.data)
    preference = replace(
        _without_rewards(reinforcement, warmup, method),
        name=PREFERENCE,
        policy=policies[TEACHER if teacher else RL],
    )
    return warmup, *between, preference


def _reward_model_phases(
    config: RunConfig, warmup: Phase, reinforcement: Phase
) -> tuple[Phase, ...]:
    """Return the phase in which the run learns a reward model of its own, if it does."""
    rules = config.reward_model
    if not rules.num_steps:
        return ()
    learning = replace(
        _without_rewards(reinforcement, warmup, PAIRS),
        name=REWARD_MODEL,
        num_steps=rules.num_steps,
        num_episodes=rules.num_episodes,
        peak_lr=rules.lr,
        lr_warmup_steps=rules.lr_warmup_steps,
    )
    return (learning,)


def _without_rewards(reinforcement: Phase, warmup: Phase, method: Method) -> Phase:
    """Return a phase of the same games that learns by a method instead of from rewards."""
    return replace(
        reinforcement,
        algorithm=warmup.algorithm,
        correction=warmup.correction,
        kl_coefficient=0.0,
        method=method,
    )
