"""A run: its parts, where it stands, and its folder."""

import json
import resource
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, final

import torch
from earl_envs import Game
from earl_selector import ContextReport, Decision, Policy, SelectorState
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from earl_trainer.asynchronous.setup import make_background_collection, under_way_after
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.config import RunConfig
from earl_trainer.engines import go_by_profile
from earl_trainer.evaluation.checkup import CheckupHistory
from earl_trainer.evaluation.examiner import Examiner
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.evaluation.playing import MatchPlan, play_match
from earl_trainer.experience.curriculum_collection import CurriculumCollection
from earl_trainer.experience.curriculum_setup import make_level_player
from earl_trainer.experience.estimator import Estimator, Untouched
from earl_trainer.experience.filter_setup import filter_collection
from earl_trainer.experience.mixing import REPLAY_FILE, Experience, FreshOnly, make_experience
from earl_trainer.experience.samples import rewards_of
from earl_trainer.experience.transfer import LearnerFeed
from earl_trainer.experience.valued_prepare import PreparationStage
from earl_trainer.guards.guard import Action
from earl_trainer.guards.guardian import Guardian
from earl_trainer.guards.panel import Alarm, PanelState
from earl_trainer.guards.reward_normaliser import RewardNormaliser, RewardStatistics
from earl_trainer.guards.rollbacks import RolledBackError
from earl_trainer.interrupts import interrupts_deferred
from earl_trainer.learner.critic import ActorCritic, make_critic
from earl_trainer.learner.learner import AbsentLearner, Learner
from earl_trainer.models.int8 import quantise
from earl_trainer.models.load import load_folder
from earl_trainer.phases import RL, Phase, add_values, freeze_copy
from earl_trainer.preference.setup import make_collection
from earl_trainer.preparation import make_rank_preparer
from earl_trainer.profiling.choice import find_or_measure
from earl_trainer.profiling.setup import make_setup
from earl_trainer.rewards.learning import REWARD_MODEL, labelling
from earl_trainer.rewards.own_model import OwnRewardModel
from earl_trainer.rewards.setup import make_judge, score_episodes
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.choice import Choice
from earl_trainer.rollout.collection import Collection, InlineCollection
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.limits import context_share
from earl_trainer.rollout.policies import LanguagePolicy, ReplyPolicy, ScriptedPolicy
from earl_trainer.seeding import derive_seed
from earl_trainer.tracking.plot import plot_run
from earl_trainer.tracking.step import StepOutcome
from earl_trainer.tracking.tracker import SilentTracker, Tracker
from earl_trainer.types import EpisodeSummary, RunFailedError
from earl_trainer.workers.team import Team

SUMMARY_FILE = "summary.json"
_LEARNER_FILE = "learner.pt"
Summary = dict[str, Any]  # Any: nested plain values for JSON


@dataclass(slots=True, kw_only=True)
class RunState:
    """Where a run stands between two steps; a resume needs this, the weights and the optimizer."""

    step: int
    """The next step."""
    selector: SelectorState
    report: ContextReport | None
    """Contexts of the last step's rollout."""
    collection: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """Of the episodes that are under way."""
    preparation: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """What the preparation stage chooses its degree from."""
    estimation: dict[str, Any] = field(default_factory=dict[str, Any])  # Any: plain JSON values
    """What advantages are estimated from besides a step's own episodes."""
    evaluations: dict[str, tuple[int, MatchResult]] = field(
        default_factory=dict[str, tuple[int, MatchResult]]
    )
    """Name of a match -> the step it was played before, and its result."""
    guards: PanelState = field(default_factory=PanelState)
    """What guards have seen."""
    rewards: RewardStatistics = field(default_factory=RewardStatistics)
    """Of reinforcement learning, where rewards are normalised."""
    checkups: CheckupHistory = field(default_factory=CheckupHistory)

    def to_dict(self) -> dict[str, Any]:  # Any: nested plain values for JSON
        """Return the state as plain values."""
        return {
            "step": self.step,
            "selector": self.selector.to_dict(),
            "report": None if self.report is None else asdict(self.report),
            "collection": self.collection,
            "preparation": self.preparation,
            "estimation": self.estimation,
            "evaluations": {
                name: {"step": step, "result": result.to_dict()}
                for name, (step, result) in self.evaluations.items()
            },
            "guards": self.guards.to_dict(),
            "rewards": asdict(self.rewards),
            "checkups": self.checkups.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "RunState":  # Any: parsed JSON
        """Rebuild a state from what `to_dict` returned."""
        report = values["report"]
        return cls(
            step=values["step"],
            selector=SelectorState.from_dict(values["selector"]),
            report=None if report is None else ContextReport(**report),
            collection=values.get("collection", {}),
            preparation=values.get("preparation", {}),
            estimation=values.get("estimation", {}),
            evaluations={
                name: (entry["step"], MatchResult(**entry["result"]))
                for name, entry in values["evaluations"].items()
            },
            guards=PanelState.from_dict(values["guards"]),
            rewards=RewardStatistics(**values["rewards"]),
            checkups=CheckupHistory.from_dict(values["checkups"]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a step that belong to one phase."""

    collection: Collection
    preparer: PreparationStage
    estimator: Estimator | Untouched
    normaliser: RewardNormaliser
    experience: Experience
    feed: LearnerFeed
    learner: Learner | ActorCritic | AbsentLearner

    def scale(self, rewards: Sequence[float | None]) -> Sequence[float | None]:
        """Return the rewards that advantages are estimated from."""
        return self.normaliser.normalise(rewards)

    @property
    def preparation_figures(self) -> dict[str, float]:
        """What the stages between playing and learning report of the last step."""
        return {
            **self.preparer.figures,
            **self.normaliser.figures,
            **self.estimator.figures,
            **self.experience.figures,
        }

    def close(self) -> None:
        """End what goes on between steps."""
        self.collection.close()


@final
@dataclass(slots=True, kw_only=True)
class Run:
    """Everything a run consists of.

    Every worker of the team has one. The first keeps the records: metrics, checkpoints, results.

    Lifecycle: made by `assemble.assemble_run`, trained by `loop.train`, then `finish`; after Ctrl-C
    `save` instead, and a new process goes on from there.
    """

    config: RunConfig
    folder: Path
    state: RunState
    game: Game
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    engine: Engine
    collector: Collector
    selector: Policy
    phases: Sequence[Phase]
    evaluation_policy: ReplyPolicy
    tracker: Tracker | SilentTracker
    checkpoints: CheckpointStore
    guardian: Guardian
    examiner: Examiner
    resumed_from: Path | None
    team: Team
    _learner: Learner | ActorCritic | None = None
    _critic: PreTrainedModel | None = None
    _reward_model: OwnRewardModel = field(init=False)
    _collection: Collection | None = None
    _preparer: PreparationStage | None = None
    _estimator: Estimator | Untouched | None = None
    _experience: Experience | None = None
    _normaliser: RewardNormaliser | None = None
    stopped_by: str | None = None
    """What a guard found that ends the run."""
    started_s: float = field(default_factory=time.perf_counter)
    """When it began in this process, by `time.perf_counter`."""

    def __post_init__(self) -> None:
        """Find the reward model that the run learns, if it learns one."""
        self._reward_model = OwnRewardModel(
            self.phases, self.model, self.tokenizer, self.resumed_from
        )

    def begin(self) -> None:
        """Give all workers and the engine the weights that the run starts from."""
        self.team.equalise(self.model)
        self.engine.load_weights(self.state.step)

    def measure(self) -> None:
        """Find out how fast the engine is at each degree, where there is a choice.

        Raises:
            RunFailedError: If the profile that was named is of something else, or an engine cannot
                change its degree.
        """
        if not self.team.is_first:
            return
        setup = make_setup(
            self.config,
            model=self.model,
            engine=self.engine,
            stop_ids=ChatFormat(self.tokenizer).stop_ids,
            selector=self.selector,
        )
        try:
            profile = find_or_measure(self.config.selector, setup, folder=self.folder)
        except ValueError as error:
            raise RunFailedError(str(error)) from error
        profile.keep(self.folder)
        self.selector = go_by_profile(self.selector, self.config, profile)
        if profile.note is not None:
            self.tracker.display.note(profile.note)

    def publish(self, collection: Collection) -> None:
        """Give all workers, and every engine that is asked next, the weights after this step."""
        step = self.state.step + 1
        self.team.publish(self.model)
        if self._critic is not None:
            self.team.publish(self._critic)
        if self._reward_model.is_learned_at(self.state.step):
            self.team.publish(self._reward_model.model)
        collection.publish(self.model, step)
        # Nobody asks the engine while a script plays, until the match that follows.
        if not any(
            not phase.asks_engine and phase.first_step < step < phase.end_step
            for phase in self.phases
        ):
            self.engine.load_weights(step)

    def evaluate(self, name: str) -> None:
        """Play the match `name`, unless it has been played at this step.

        Two matches at the same step would be the same games with the same weights; the second takes
        the first one's result.
        """
        step, evaluations = self.state.step, self.state.evaluations
        if name in evaluations and evaluations[name][0] == step:
            return
        results = dict(evaluations.values())
        note = self.tracker.display.note
        if step in results:
            with interrupts_deferred(lambda: note("Ctrl-C: recording this match first")):
                evaluations[name] = step, results[step]
                self.tracker.log_evaluation(name, step, results[step])
            return
        episodes = self._play_match()
        outcomes = [episode.outcome for episode in episodes]
        with interrupts_deferred(lambda: note("Ctrl-C: recording this match first")):
            evaluations[name] = step, MatchResult.of(episodes)
            self.tracker.log_episodes(f"evaluation-{name}", step, episodes, outcomes)
            self.tracker.log_evaluation(name, *evaluations[name])

    def _play_match(self) -> list[EpisodeSummary]:
        plan = MatchPlan(
            seed=derive_seed(self.config.seed, "evaluation"),
            num_games=self.config.evaluation.num_games,
            num_seats=self.game.num_seats,
            games_at_once=self.examiner.plan.games_at_once,
        )
        stage = self.tracker.display.stage
        return play_match(
            self.collector,
            self.evaluation_policy,
            plan,
            self.team,
            lambda detail: stage("match", detail),
        )

    def examine(self, *, at_end: bool = False) -> None:
        """Make a checkup of the present weights, if it is due and has not been made."""
        step, history = self.state.step, self.state.checkups
        if not self.examiner.is_due(step, history, at_end=at_end):
            return
        if self.engine.version != step:
            self.engine.load_weights(step)  # While a script plays nobody has asked for them.
        display = self.tracker.display
        checkup, history = self.examiner.examine(
            step,
            history,
            save_model=self.save_model,
            show=lambda detail: display.stage("checkup", detail),
        )
        note = display.note
        with interrupts_deferred(lambda: note("Ctrl-C: recording this checkup first")):
            self.state.checkups = history
            self.tracker.log_checkup(checkup)

    def decide(self, num_episodes: int) -> Choice:
        """Let the selector choose this step's degree, and the engine change to it.

        All workers hear of what the first knows. Where the engine could not change, what it runs at
        counts as chosen.
        """
        decision, state = self.team.everyone.from_first(lambda: self._update_selector(num_episodes))
        switch = self.engine.resize(decision.tp) if self.team.plays else None
        if switch is not None:
            note = f"step {self.state.step + 1}: {switch.describe()}; {decision.reason}"
            self.tracker.display.note(note)
        if switch is not None and not switch.done:
            left_out = f"tp {switch.to_tp} is left out while another holds the forecast"
            reason = f"{decision.reason}; {switch.problem}; {left_out}"
            capacity_tokens = self.selector.fleet.capacity_tokens(switch.tp)
            decision = replace(
                decision, tp=switch.tp, reason=reason, capacity_tokens=capacity_tokens
            )
            state = state.refuse(switch.tp)
        share_tokens = context_share(
            self.config, capacity_tokens=self.engine.capacity_tokens, num_episodes=num_episodes
        )
        return Choice(decision=decision, selector=state, switch=switch, share_tokens=share_tokens)

    def _update_selector(self, num_episodes: int) -> tuple[Decision, SelectorState]:
        state, report = self.state.selector, self.state.report
        if report is not None and self.config.selector.times == "profile":
            report = replace(report, rollout_s=None, switch_s=None)
        begins = any(self.state.step == phase.first_step for phase in self.phases)
        return self.selector.update(
            state,
            report,
            # Preparation, or a failure, may have left the engine at another degree.
            current_tp=None if state.tp is None else self.engine.tp,
            # A phase may play more, or fewer, than the one before it.
            num_responses=-(-num_episodes // self.config.rollout_workers) if begins else None,
        )

    def goes_on(self, phase: Phase) -> bool:
        """Whether a phase has another step."""
        return self.state.step < phase.end_step and self.stopped_by is None

    def enter(self, phase: Phase) -> Stages:
        """Make the stages of a phase, as they were if the run resumes inside it."""
        resumes = self.state.step > phase.first_step
        reference = self._reference(resumes=resumes) if phase.needs_reference else None
        self._critic = make_critic(self.model) if phase.algorithm.needs_critic else None
        self._learner = self._make_learner(phase, resumes=resumes) if self.team.learns else None
        if self._critic is not None:
            self.team.equalise(self._critic)
        self._normaliser = RewardNormaliser(
            self.config.guards.normalise_rewards if phase.name == RL else "off",
            self.state.rewards,
            self.team.everyone,
        )
        collection = self._make_collection(phase, resumes=resumes)
        preparer = self._enter_preparer(phase, reference, resumes=resumes)
        self._experience = self._make_experience(phase, preparer, resumes=resumes)
        stages = Stages(
            collection=collection,
            preparer=preparer,
            normaliser=self._normaliser,
            estimator=self._enter_estimator(phase, resumes=resumes),
            experience=self._experience,
            feed=self._make_feed(),
            learner=self._learner or AbsentLearner(),
        )
        starts_rl = phase.name == RL and not resumes
        if starts_rl and self.team.is_first and self.guardian.panel.rolls_back:
            self.save()  # There is something to go back to.
        return stages

    def _make_collection(self, phase: Phase, *, resumes: bool) -> Collection:
        collection = self._make_player(phase, resumes=resumes)
        if phase.name == RL:
            collection = filter_collection(
                collection,
                self.config,
                phase,
                partial(rewards_of, config=self.config.reward),
                self.team.everyone,
                num_seats=self.game.num_seats,
            )
        self._collection = collection
        return collection

    def _make_player(self, phase: Phase, *, resumes: bool) -> Collection:
        if phase.name == RL and self.config.is_asynchronous:
            background = make_background_collection(
                self.config,
                phase,
                model=self.model,
                tokenizer=self.tokenizer,
                capacity_tokens=self.engine.capacity_tokens,
                num_seats=self.game.num_seats,
                under_way=(self.state.collection if resumes else {})
                or under_way_after(
                    self.state.step - phase.first_step, phase, num_seats=self.game.num_seats
                ),
                note=self.tracker.display.note,
            )
            background.publish(self.model, self.state.step)
            return self._scored(background)
        if phase.method is not None:
            return make_collection(
                labelling(self.config) if phase.name == REWARD_MODEL else self.config,
                phase,
                phase.method,
                lambda: self._make_inline_collection(phase, resumes=resumes),
                chat=ChatFormat(self.tokenizer),
                policy=LanguagePolicy(self.engine, temperature=self.config.rollout.temperature),
                team=self.team,
            )
        return self._make_inline_collection(phase, resumes=resumes)

    def _make_inline_collection(self, phase: Phase, *, resumes: bool) -> Collection:
        # What a script plays is imitated, whatever its reward.
        rewarded = self.team.plays and not isinstance(phase.policy, ScriptedPolicy)
        levels = (
            make_level_player(
                self.config,
                ChatFormat(self.tokenizer),
                self.state.collection if resumes else {},
            )
            if phase.name == RL and self.config.experience.curriculum
            else None
        )
        games: Collection = InlineCollection(
            levels or self.collector,
            phase,
            self.team,
            seed=self.config.seed,
            num_seats=self.game.num_seats,
            judge=make_judge(self.config) if rewarded else None,
        )
        if levels is not None:
            games = CurriculumCollection(
                games, levels, self.team.everyone, note=self.tracker.display.note
            )
        # A reward model learns from what is known without one.
        return self._scored(games) if rewarded and phase.name != REWARD_MODEL else games

    def _scored(self, games: Collection) -> Collection:
        return score_episodes(
            self.config,
            games,
            own=self._reward_model,
            policy=self.model,
            decode=lambda ids: str(self.tokenizer.decode(list(ids))),
        )

    def _enter_preparer(
        self, phase: Phase, reference: PreTrainedModel | None, *, resumes: bool
    ) -> PreparationStage:
        inner = self._make_preparer(phase, reference)
        self._preparer = add_values(self.config, inner, self._critic)
        if resumes:
            self._preparer.restore(self.state.preparation)
        return self._preparer

    def _enter_estimator(self, phase: Phase, *, resumes: bool) -> Estimator | Untouched:
        self._estimator = phase.make_estimator(
            self.config, num_seats=self.game.num_seats, workers=self.team.everyone
        )
        if resumes:
            self._estimator.restore(self.state.estimation)
        return self._estimator

    def _make_experience(
        self, phase: Phase, preparer: PreparationStage, *, resumes: bool
    ) -> Experience:
        if phase.name != RL:
            return FreshOnly()
        return make_experience(
            self.config.experience,
            preparer.prepare,
            seed=self.config.seed,
            resumed_from=self.resumed_from if resumes else None,
        )

    def _make_preparer(self, phase: Phase, reference: PreTrainedModel | None) -> PreparationStage:
        if self.config.selector.prepare_on == "learner" or not self.team.plays:
            return phase.make_preparer(self.config, self.model, reference, self.team.everyone)
        return make_rank_preparer(
            self.config,
            self.model,
            self.engine,
            phase,
            degrees=self.selector.usable_degrees,
            reference=reference,
            folder=self.folder,
            note=self.tracker.display.note,
        )

    def _make_learner(self, phase: Phase, *, resumes: bool) -> Learner | ActorCritic:
        rewards, step = self._reward_model, self.state.step
        trained = rewards.model if rewards.is_learned_at(step) else self.model
        learner = phase.make_learner(self.config, trained, self._critic, self.team.learners)
        if resumes:
            assert self.resumed_from is not None
            learner.load_state_dict(
                torch.load(self.resumed_from / _LEARNER_FILE, map_location="cpu")
            )
        return learner

    def _make_feed(self) -> LearnerFeed:
        learner, dispatch = self.config.learner, self.config.dispatch
        return LearnerFeed(
            self.team,
            transport=dispatch.transport_of(self.team.size),
            num_minibatches=learner.num_minibatches,
            num_epochs=learner.num_epochs,
            timeout_s=dispatch.timeout_s,
            max_buffer_bytes=dispatch.max_buffer_bytes or None,
        )

    def _reference(self, *, resumes: bool) -> PreTrainedModel:
        folder = self.folder / "reference"
        if not self.team.plays:
            return self.model  # It has no row to score.
        if resumes:
            reference = freeze_copy(load_folder(folder, device=self.config.model.device).model)
        else:
            if self.team.is_first:
                self.save_model(folder)
            reference = freeze_copy(self.model)
        return quantise(reference) if self.config.model.reference_dtype == "int8" else reference

    def complete_step(self, outcome: StepOutcome, selector: SelectorState) -> None:
        """Move on to the next step: record this one, and save if a checkpoint is due."""
        self.state.step += 1
        self.state.selector = selector
        if self._normaliser is not None:
            self.state.rewards = self._normaliser.statistics
        if self._collection is not None:
            self.state.collection = self._collection.to_dict()
        if self._preparer is not None:
            self.state.preparation = self._preparer.to_dict()
        if self._experience is not None:
            self._experience.commit()
        if self._estimator is not None:
            self.state.estimation = self._estimator.to_dict()
        self._obey(self.team.everyone.from_first(lambda: self._record(outcome)))
        if self.state.step % self.config.tracking.checkpoint_every_steps == 0:
            if self.team.is_first:
                self.save()
            # Opponents of the next step may be read from the checkpoint that is written now.
            self.team.everyone.all_gather(None)

    def _record(self, outcome: StepOutcome) -> Alarm | None:
        """Write a step down, and return what guards have found that is more than a warning."""
        record, alarm = outcome.record(), None
        if outcome.phase == RL:
            alarm, self.state.guards, figures = self.guardian.inspect(
                self.state.guards,
                {**record.metrics, **self.state.checkups.latest},
                step=outcome.step,
                note=self.tracker.display.note,
            )
            record = replace(record, metrics={**record.metrics, **figures})
        self.tracker.log_step(record)
        self.tracker.log_episodes(outcome.phase, outcome.step, outcome.episodes, outcome.rewards)
        self.state.report = outcome.report()
        if alarm is None or alarm.action is not Action.ROLL_BACK:
            return alarm
        first_step = next(phase.first_step for phase in self.phases if phase.name == RL)
        return self.guardian.settle(alarm, step=self.state.step, first_step=first_step)

    def _obey(self, alarm: Alarm | None) -> None:
        """Do as the first worker's guards say.

        Raises:
            RolledBackError: If the run has to be made anew from its latest checkpoint.
        """
        if alarm is None or alarm.action is Action.WARN:
            return
        self.tracker.display.note(f"{alarm.action}: {alarm.describe()}")
        if alarm.action is Action.ROLL_BACK:
            raise RolledBackError(alarm.describe())
        self.stopped_by = alarm.describe()

    def save(self) -> Path:
        """Save a checkpoint of the present step and return its folder."""
        return self.checkpoints.save(self.state.step, self._write)

    def _write(self, folder: Path) -> None:
        self.save_model(folder / "model")
        self._reward_model.save(folder, self.state.step)
        if self._learner is not None:
            torch.save(self._learner.state_dict(), folder / _LEARNER_FILE)
        if self._experience is not None:
            self._experience.save(folder)
        elif self.resumed_from is not None:
            # No phase has been entered since: optimizer and replay stand where they stood.
            for name in (_LEARNER_FILE, REPLAY_FILE):
                if (self.resumed_from / name).exists():
                    shutil.copy(self.resumed_from / name, folder)
        state = {**self.state.to_dict(), "files": self.tracker.positions()}
        (folder / "state.json").write_text(json.dumps(state, indent=1))

    def save_model(self, folder: Path) -> None:
        """Write weights, tokenizer and chat template as a folder that `from_pretrained` loads."""
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)

    def finish(self) -> Summary:
        """Write the last checkpoint, the model folders, the plot and `summary.json`."""
        self.save()
        self.save_model(self.folder / "model")
        self._reward_model.save(self.folder, self.state.step)
        evaluations = self.state.evaluations
        picture = self.folder / "run.png"
        plot_run(
            self.folder / "metrics.jsonl",
            evaluations,
            title=f"{self.config.recipe}, seed {self.config.seed}",
            target=picture,
        )
        initial, before, after = (evaluations[name][1] for name in ("initial", "before", "after"))
        summary: Summary = {
            "recipe": self.config.recipe,
            "evaluation": {name: result.to_dict() for name, (_, result) in evaluations.items()},
            "gain": {
                "reinforcement": _interval(after.gain_over(before)),
                "total": _interval(after.gain_over(initial)),
            },
            "steps": self.state.step,
            "checkups": self.examiner.summary(self.state.checkups),
            "guards": {
                "stopped_by": self.stopped_by,
                "num_alarms": dict(self.state.guards.num_alarms),
                "rollbacks": [asdict(rollback) for rollback in self.guardian.rollbacks],
            },
            "num_parameters": self.model.num_parameters(),
            # Of this process: a resumed run had others before it.
            "process_time_s": time.perf_counter() - self.started_s,
            "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        (self.folder / SUMMARY_FILE).write_text(json.dumps(summary, indent=1))
        self.tracker.log_results(summary, picture)
        return summary


def _interval(gain: tuple[float, float, float]) -> dict[str, float]:
    return {"win_rate": gain[0], "low": gain[1], "high": gain[2]}
