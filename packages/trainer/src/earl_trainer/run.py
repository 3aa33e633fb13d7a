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
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.experience.curriculum_collection import CurriculumCollection
from earl_trainer.experience.curriculum_setup import make_level_player
from earl_trainer.experience.filter_setup import filter_collection
from earl_trainer.experience.mixing import REPLAY_FILE, Experience, FreshOnly, make_experience
from earl_trainer.experience.prepare import Preparer
from earl_trainer.experience.rank_prepare import RankPreparer
from earl_trainer.experience.samples import rewards_of
from earl_trainer.experience.transfer import LearnerFeed
from earl_trainer.interrupts import interrupts_deferred
from earl_trainer.learner.learner import AbsentLearner, Learner
from earl_trainer.models.load import load_folder
from earl_trainer.phases import RL, Phase, freeze_copy
from earl_trainer.preparation import make_rank_preparer
from earl_trainer.profiling.choice import find_or_measure
from earl_trainer.profiling.setup import make_setup
from earl_trainer.rewards.setup import make_judge
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.choice import Choice
from earl_trainer.rollout.collection import Collection, InlineCollection
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.limits import context_share
from earl_trainer.rollout.policies import ReplyPolicy, ScriptedPolicy
from earl_trainer.rollout.starts import paired_starts
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
    evaluations: dict[str, tuple[int, MatchResult]] = field(
        default_factory=dict[str, tuple[int, MatchResult]]
    )
    """Name of a match -> the step it was played before, and its result."""

    def to_dict(self) -> dict[str, Any]:  # Any: nested plain values for JSON
        """Return the state as plain values."""
        return {
            "step": self.step,
            "selector": self.selector.to_dict(),
            "report": None if self.report is None else asdict(self.report),
            "collection": self.collection,
            "preparation": self.preparation,
            "evaluations": {
                name: {"step": step, "result": result.to_dict()}
                for name, (step, result) in self.evaluations.items()
            },
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
            evaluations={
                name: (entry["step"], MatchResult(**entry["result"]))
                for name, entry in values["evaluations"].items()
            },
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """The stages of a step that belong to one phase."""

    collection: Collection
    preparer: Preparer | RankPreparer
    experience: Experience
    feed: LearnerFeed
    learner: Learner | AbsentLearner

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
    resumed_from: Path | None
    team: Team
    _learner: Learner | None = None
    _collection: Collection | None = None
    _preparer: Preparer | RankPreparer | None = None
    _experience: Experience | None = None
    _started_s: float = field(default_factory=time.perf_counter)

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
        collection.publish(self.model, step)
        # Nobody asks the engine while a script plays, until the match that follows.
        if not any(
            isinstance(phase.policy, ScriptedPolicy) and phase.first_step < step < phase.end_step
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
        """Play a match, as many games at once as in a step, so that it takes no more memory."""
        starts = self.team.share(
            paired_starts(
                derive_seed(self.config.seed, "evaluation"),
                num_games=self.config.evaluation.num_games,
                num_seats=self.game.num_seats,
            )
        )
        show, played = self.tracker.display.stage, list[EpisodeSummary]()
        while rest := starts[len(played) :]:
            rollout = self.collector.collect(
                self.evaluation_policy,
                rest[: -(-self.config.rollout.num_episodes // self.team.num_rollout_workers)],
                on_turn=lambda live: show("match", f"{len(played)} played, {live} running"),
            )
            played.extend(rollout.summaries)
        return [episode for part in self.team.everyone.all_gather(played) for episode in part]

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

    def enter(self, phase: Phase) -> Stages:
        """Make the stages of a phase, as they were if the run resumes inside it."""
        resumes = self.state.step > phase.first_step
        reference = self._reference(resumes=resumes) if phase.needs_reference else None
        self._learner = self._make_learner(phase, resumes=resumes) if self.team.learns else None
        collection = self._make_collection(phase, resumes=resumes)
        preparer = self._enter_preparer(phase, reference, resumes=resumes)
        self._experience = self._make_experience(phase, preparer, resumes=resumes)
        return Stages(
            collection=collection,
            preparer=preparer,
            experience=self._experience,
            feed=self._make_feed(),
            learner=self._learner or AbsentLearner(),
        )

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
            return background
        levels = (
            make_level_player(
                self.config,
                ChatFormat(self.tokenizer),
                self.state.collection if resumes else {},
            )
            if phase.name == RL and self.config.experience.curriculum
            else None
        )
        inline = InlineCollection(
            levels or self.collector,
            phase,
            self.team,
            seed=self.config.seed,
            num_seats=self.game.num_seats,
            # What a script plays is imitated, whatever its reward.
            judge=make_judge(self.config) if phase.name == RL and self.team.plays else None,
        )
        if levels is None:
            return inline
        return CurriculumCollection(
            inline, levels, self.team.everyone, note=self.tracker.display.note
        )

    def _enter_preparer(
        self, phase: Phase, reference: PreTrainedModel | None, *, resumes: bool
    ) -> Preparer | RankPreparer:
        self._preparer = self._make_preparer(phase, reference)
        if resumes:
            self._preparer.restore(self.state.preparation)
        return self._preparer

    def _make_experience(
        self, phase: Phase, preparer: Preparer | RankPreparer, *, resumes: bool
    ) -> Experience:
        if phase.name != RL:
            return FreshOnly()
        return make_experience(
            self.config.experience,
            preparer.prepare,
            seed=self.config.seed,
            resumed_from=self.resumed_from if resumes else None,
        )

    def _make_preparer(
        self, phase: Phase, reference: PreTrainedModel | None
    ) -> Preparer | RankPreparer:
        if self.config.selector.prepare_on == "learner" or not self.team.plays:
            return phase.make_preparer(self.config, self.model, reference)
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

    def _make_learner(self, phase: Phase, *, resumes: bool) -> Learner:
        learner = phase.make_learner(self.config, self.model, self.team.learners)
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
            return freeze_copy(load_folder(folder, device=self.config.model.device).model)
        if self.team.is_first:
            self.save_model(folder)
        return freeze_copy(self.model)

    def complete_step(self, outcome: StepOutcome, selector: SelectorState) -> None:
        """Move on to the next step: record this one, and save if a checkpoint is due."""
        self.state.step += 1
        self.state.selector = selector
        if self._collection is not None:
            self.state.collection = self._collection.to_dict()
        if self._preparer is not None:
            self.state.preparation = self._preparer.to_dict()
        if self._experience is not None:
            self._experience.commit()
        if self.team.is_first:
            self.tracker.log_step(outcome.record())
            self.tracker.log_episodes(
                outcome.phase, outcome.step, outcome.episodes, outcome.rewards
            )
            self.state.report = outcome.report()
        if self.state.step % self.config.tracking.checkpoint_every_steps == 0:
            if self.team.is_first:
                self.save()
            # Opponents of the next step may be read from the checkpoint that is written now.
            self.team.everyone.all_gather(None)

    def save(self) -> Path:
        """Save a checkpoint of the present step and return its folder."""
        return self.checkpoints.save(self.state.step, self._write)

    def _write(self, folder: Path) -> None:
        self.save_model(folder / "model")
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
        """Write the last checkpoint, the model folder, the plot and `summary.json`."""
        self.save()
        self.save_model(self.folder / "model")
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
            "num_parameters": self.model.num_parameters(),
            # Of this process: a resumed run had others before it.
            "process_time_s": time.perf_counter() - self._started_s,
            "process_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        (self.folder / SUMMARY_FILE).write_text(json.dumps(summary, indent=1))
        self.tracker.log_results(summary, picture)
        return summary


def _interval(gain: tuple[float, float, float]) -> dict[str, float]:
    return {"win_rate": gain[0], "low": gain[1], "high": gain[2]}
