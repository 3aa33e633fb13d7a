"""A run: its parts, where it stands, and its folder."""

import json
import resource
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, final

from earl_envs import Game
from earl_selector import Decision, Policy, SelectorState
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.config import RunConfig
from earl_trainer.engines import go_by_profile
from earl_trainer.evaluation.examiner import Examiner
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.evaluation.playing import MatchPlan, play_match
from earl_trainer.guards.guard import Action
from earl_trainer.guards.guardian import Guardian
from earl_trainer.guards.panel import Alarm
from earl_trainer.guards.rollbacks import RolledBackError
from earl_trainer.interrupts import interrupts_deferred
from earl_trainer.models.finite import check_finite
from earl_trainer.phases import GUARDED, Phase
from earl_trainer.profiling.choice import find_or_measure
from earl_trainer.profiling.setup import make_setup
from earl_trainer.rewards.own_model import OwnRewardModel
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.choice import Choice
from earl_trainer.rollout.collection import Collection
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.limits import context_share
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.run_state import RunState
from earl_trainer.seeding import derive_seed
from earl_trainer.stages import SAVED_FILES, Stages
from earl_trainer.tracking.plot import plot_run
from earl_trainer.tracking.step import StepOutcome
from earl_trainer.tracking.tracker import SilentTracker, Tracker
from earl_trainer.types import EpisodeSummary, RunFailedError
from earl_trainer.workers.team import Team

SUMMARY_FILE = "summary.json"
_MOST = 0.5
Summary = dict[str, Any]  # Any: nested plain values for JSON


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
    stages: Stages | None = None
    """Of the phase that was entered last."""
    reward_model: OwnRewardModel = field(init=False)
    stopped_by: str | None = None
    """What a guard found that ends the run."""
    told_of_truncation: bool = False
    """Whether a step has been remarked on of which most episodes were cut."""
    started_s: float = field(default_factory=time.perf_counter)
    """When it began in this process, by `time.perf_counter`."""

    def __post_init__(self) -> None:
        """Find the reward model that the run learns, if it learns one."""
        self.reward_model = OwnRewardModel(
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
        if self.stages is not None and self.stages.critic is not None:
            self.team.publish(self.stages.critic)
        if self.reward_model.is_learned_at(self.state.step):
            self.team.publish(self.reward_model.model)
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

    def complete_step(self, outcome: StepOutcome, selector: SelectorState) -> None:
        """Move on to the next step: record this one, and save if a checkpoint is due."""
        self.state.step += 1
        self.state.selector = selector
        if self.stages is not None:
            self.stages.complete_step(self.state)
        self._obey(self.team.everyone.from_first(lambda: self._record(outcome)))
        if self.state.step % self.config.tracking.checkpoint_every_steps == 0:
            if self.team.is_first:
                self.save()
            # Opponents of the next step may be read from the checkpoint that is written now.
            self.team.everyone.all_gather(None)

    def _record(self, outcome: StepOutcome) -> Alarm | None:
        """Write a step down, and return what guards have found that is more than a warning."""
        record, alarm = outcome.record(), None
        if outcome.phase in GUARDED:
            alarm, self.state.guards, figures = self.guardian.inspect(
                self.state.guards,
                {**record.metrics, **self.state.checkups.latest},
                step=outcome.step,
                note=self.tracker.display.note,
            )
            record = replace(record, metrics={**record.metrics, **figures})
        self._note_truncation(record.metrics, outcome.step)
        self.tracker.log_step(record)
        self.tracker.log_episodes(outcome.phase, outcome.step, outcome.episodes, outcome.rewards)
        self.state.report = outcome.report()
        if alarm is None or alarm.action is not Action.ROLL_BACK:
            return alarm
        first_step = next(phase.first_step for phase in self.phases if phase.name == outcome.phase)
        return self.guardian.settle(alarm, step=self.state.step, first_step=first_step)

    def _note_truncation(self, metrics: Mapping[str, float], step: int) -> None:
        """Say, at the first such step, that limits and not the games end most episodes."""
        share = metrics.get("context/truncated_share", 0.0)
        if share <= _MOST or self.told_of_truncation:
            return
        self.told_of_truncation = True
        self.tracker.display.note(
            f"step {step + 1}: {share:.0%} of the episodes were cut by rollout.max_reply_tokens or "
            "rollout.max_context_tokens: hardly any plays to its end (said once)"
        )

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
        """Save a checkpoint of the present step and return its folder.

        Raises:
            NonFiniteWeightsError: If there is nothing worth saving; older checkpoints stay.
        """
        check_finite("policy", self.model)
        if self.stages is not None and self.stages.critic is not None:
            check_finite("critic", self.stages.critic)
        if self.reward_model.is_learned_at(self.state.step):
            check_finite("reward model", self.reward_model.model)
        return self.checkpoints.save(self.state.step, self._write)

    def _write(self, folder: Path) -> None:
        self.save_model(folder / "model")
        self.reward_model.save(folder, self.state.step)
        if self.stages is not None:
            self.stages.save(folder)
        elif self.resumed_from is not None:
            # No phase has been entered since: optimizer and replay stand where they stood.
            for name in SAVED_FILES:
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
        self.reward_model.save(self.folder, self.state.step)
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
                "after_warmup": _interval(after.gain_over(before)),
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
