"""Building a run from its config, new or from a checkpoint."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from earl_envs import Game, Opponent, make_game, make_opponent
from earl_envs.opponents.perfect import PerfectOpponent

from earl_trainer.asynchronous.check import note_idle_workers, note_unused_staleness
from earl_trainer.checkpoint import CheckpointStore
from earl_trainer.config import PAST_MODELS, ModelConfig, RunConfig
from earl_trainer.engines import make_engine, make_selector
from earl_trainer.evaluation.examiner import Examiner
from earl_trainer.evaluation.playing import MatchPlan
from earl_trainer.experience.check import check_offline_tokens
from earl_trainer.experience.curriculum_setup import check_words, levels_of
from earl_trainer.guards.guardian import Guardian
from earl_trainer.guards.rollbacks import RollbackLog
from earl_trainer.guards.setup import make_panel
from earl_trainer.models.load import load_folder, load_model
from earl_trainer.models.output_layer import note_whole_logits
from earl_trainer.phases import RL, TEACHER, WARMUP, Phase, plan_phases
from earl_trainer.preference.setup import check_data
from earl_trainer.rewards.learning import check_pairs
from earl_trainer.rewards.setup import check_reward_functions, check_reward_models
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.engine import Engine
from earl_trainer.rollout.past_models import PastModels
from earl_trainer.rollout.policies import LanguagePolicy, ReplyPolicy, ScriptedPolicy
from earl_trainer.rollout.transformers_engine import TransformersEngine
from earl_trainer.rules import (
    check_config,
    check_context,
    expected_context_tokens,
)
from earl_trainer.run import Run
from earl_trainer.run_folder import check_folder, claim_folder
from earl_trainer.run_state import RunState
from earl_trainer.seeding import derive_seed
from earl_trainer.tracking.console import Display, make_display
from earl_trainer.tracking.sinks import JsonLines
from earl_trainer.tracking.tracker import SilentTracker, Tracker
from earl_trainer.workers.team import Team

_CHECKPOINTS = "checkpoints"
_PAST_WEIGHTS = "past_weights"
_ROLLBACKS = "rollbacks.jsonl"
_ANY_DEVICE = "auto"


def assemble_run(
    config: RunConfig, folder: Path, *, resume: bool, display: Display | None = None
) -> Run:
    """Put a run together; everything that can be refused is refused here.

    It is that of the team's first worker; `assemble_worker` makes those of the others.

    Args:
        config: The whole config.
        folder: Of the run: new, or with a checkpoint to go on from.
        resume: Whether to go on.
        display: Shows the run; by default a live table in a terminal and plain lines elsewhere.

    Raises:
        ValueError: With the rule and the value of whatever does not fit.
    """
    check_config(config)
    check_folder(config, folder, resume=resume)
    check_reward_functions(config.reward)
    # A run that was interrupted before its first checkpoint begins anew.
    checkpoint = _checkpoints(config, folder).latest() if resume else None
    run = assemble_worker(config, folder, checkpoint=checkpoint, rank=0)
    chat, capacity_tokens = ChatFormat(run.tokenizer), run.engine.capacity_tokens
    check_data(config, chat)
    check_pairs(config, chat)
    check_offline_tokens(config, run.tokenizer)
    check_reward_models(config.reward, run.model, run.tokenizer)
    context_note = check_context(config, run.game, chat, run.model, capacity_tokens=capacity_tokens)
    for name, level in levels_of(config.experience).items():
        game = level.make_game(config.env)
        check_words(name, game, run.tokenizer)
        check_context(config, game, chat, run.model, capacity_tokens=capacity_tokens)
    wandb_sink, wandb_note = claim_folder(config, folder, resume=resume)
    # Last of all: a terminal that shows a live table is in the way of a refusal.
    display = display or make_display(
        {phase.name: phase.num_steps for phase in run.phases},
        first_step=run.state.step,
        num_matches=len(run.phases) + 1 - len(run.state.evaluations),
    )
    unused_note = note_unused_staleness(config, num_seats=run.game.num_seats)
    idle_note = note_idle_workers(config, num_seats=run.game.num_seats)
    first = f"recipe {config.recipe}, run folder {folder}"
    logits_note = note_whole_logits(run.model)
    for note in (first, wandb_note, context_note, logits_note, unused_note, idle_note):
        if note is not None:
            display.note(note)
    positions = {} if checkpoint is None else _read_state(checkpoint)["files"]
    run.tracker = Tracker(
        display,
        [] if wandb_sink is None else [wandb_sink],
        metrics=JsonLines(folder / "metrics.jsonl", positions.get("metrics", 0)),
        episodes=JsonLines(folder / "episodes.jsonl", positions.get("episodes", 0)),
        game_id=config.env,
    )
    return run


def assemble_again(run: Run) -> Run:
    """Make a run anew from its latest checkpoint, in the same team and with the same records.

    What later steps have written is taken back, as by a resume.
    """
    run.engine.close()
    checkpoint = run.checkpoints.latest()
    assert checkpoint is not None
    again = assemble_worker(
        run.config, run.folder, checkpoint=checkpoint, rank=run.team.rank, team=run.team
    )
    again.started_s, again.tracker = run.started_s, run.tracker
    again.tracker.rewind(_read_state(checkpoint)["files"])
    return again


def assemble_worker(
    config: RunConfig,
    folder: Path,
    *,
    checkpoint: Path | None,
    rank: int,
    team: Team | None = None,
) -> Run:
    """Put together what one worker of a team has of a run, without records to keep.

    Args:
        config: The whole config, checked.
        folder: Of the run.
        checkpoint: What the run goes on from, if it does.
        rank: The worker's.
        team: Its team, if it has been together with it before.

    Raises:
        ValueError: If the model does not load or the selector finds nothing that fits.
    """
    game = make_game(config.env)
    model_config = _on_own_device(config.model, rank, num_workers=config.num_workers)
    loaded = (
        load_model(model_config, game, seed=derive_seed(config.seed, "model"))
        if checkpoint is None
        else load_folder(checkpoint / "model", device=model_config.device)
    )
    model, chat = loaded.model, ChatFormat(loaded.tokenizer)
    selector = make_selector(
        config, model, first_context_tokens=expected_context_tokens(config, game, chat)
    )
    state = RunState(step=0, selector=selector.init(), report=None)
    if checkpoint is not None:
        state = RunState.from_dict(_read_state(checkpoint))
    team = team or Team(
        rank=rank,
        num_rollout_workers=config.rollout_workers,
        num_learner_workers=config.learner_workers,
        own_gpus=_have_own_gpus(config),
    )
    engine = make_engine(
        config,
        model,
        chat,
        selector,
        tp=state.selector.tp,
        plays=team.plays,
        note=lambda line: run.tracker.display.note(line),
    )
    guardian = Guardian(
        make_panel(config),
        _checkpoints(config, folder),
        RollbackLog(folder / _ROLLBACKS),
        max_rollbacks=config.guards.max_rollbacks,
    )
    run = Run(
        config=config,
        folder=folder,
        state=state,
        game=game,
        model=model,
        tokenizer=loaded.tokenizer,
        engine=engine,
        collector=_make_collector(config, folder, game, chat, state, engine, team),
        selector=selector,
        phases=_make_phases(config, game, chat, engine, num_rollbacks=len(guardian.rollbacks)),
        evaluation_policy=LanguagePolicy(engine, temperature=config.evaluation.temperature),
        tracker=SilentTracker(),
        checkpoints=_checkpoints(config, folder),
        guardian=guardian,
        examiner=_make_examiner(config, folder, game, chat, engine, team),
        resumed_from=checkpoint,
        team=team,
    )
    return run


def _checkpoints(config: RunConfig, folder: Path) -> CheckpointStore:
    return CheckpointStore(folder / _CHECKPOINTS, keep=config.tracking.keep_checkpoints)


def _read_state(checkpoint: Path) -> dict[str, Any]:  # Any: parsed JSON
    return json.loads((checkpoint / "state.json").read_text())


def _on_own_device(model: ModelConfig, rank: int, *, num_workers: int) -> ModelConfig:
    """Give every worker a GPU of its own as far as there are any, unless one is named."""
    if num_workers == 1 or model.device != _ANY_DEVICE or not torch.cuda.is_available():
        return model
    return replace(model, device=f"cuda:{rank % torch.cuda.device_count()}")


def _have_own_gpus(config: RunConfig) -> bool:
    return config.model.device == _ANY_DEVICE and torch.cuda.device_count() >= config.num_workers


def _make_phases(
    config: RunConfig, game: Game, chat: ChatFormat, engine: Engine, *, num_rollbacks: int
) -> tuple[Phase, ...]:
    def scripted(player: str) -> ScriptedPolicy:
        return ScriptedPolicy(make_opponent(player), game=game, chat=chat)

    return plan_phases(
        config,
        {
            WARMUP: scripted(config.warmup.player),
            RL: LanguagePolicy(engine, temperature=config.rollout.temperature),
            TEACHER: scripted(config.preference.player),
        },
        num_rollbacks=num_rollbacks,
    )


def _make_collector(
    config: RunConfig,
    folder: Path,
    game: Game,
    chat: ChatFormat,
    state: RunState,
    engine: Engine,
    team: Team,
) -> Collector:
    if config.self_play:
        opponent = None
    elif config.opponent in PAST_MODELS:
        opponent = _make_past_models(config, folder, chat, state, engine, team)
    else:
        opponent = make_opponent(config.opponent)
    return Collector(
        game,
        game_id=config.env,
        opponent=opponent,
        match_opponent=make_opponent(config.match_opponent),
        chat=chat,
        max_context_tokens=config.rollout.max_context_tokens,
        max_reply_tokens=config.rollout.max_reply_tokens,
    )


def _make_examiner(
    config: RunConfig, folder: Path, game: Game, chat: ChatFormat, engine: Engine, team: Team
) -> Examiner:
    rules = config.evaluation

    def seat(rival: Opponent | ReplyPolicy) -> Collector:
        return Collector(
            game,
            game_id=config.env,
            opponent=None,
            match_opponent=rival,
            chat=chat,
            max_context_tokens=config.rollout.max_context_tokens,
            max_reply_tokens=config.rollout.max_reply_tokens,
        )

    # A run that goes on from a checkpoint meets whom it would have met without.
    spare = -(-config.tracking.checkpoint_every_steps // max(1, rules.every_steps))
    return Examiner(
        every_steps=rules.every_steps,
        opponents=rules.opponents,
        num_past_selves=rules.past_selves,
        plan=MatchPlan(
            seed=derive_seed(config.seed, "checkup"),
            num_games=rules.checkup_games,
            num_seats=game.num_seats,
            games_at_once=-(-config.rollout.num_episodes // team.num_rollout_workers),
        ),
        game=game,
        seat=seat,
        policy=LanguagePolicy(engine, temperature=rules.temperature),
        past_weights=CheckpointStore(folder / _PAST_WEIGHTS, keep=rules.past_selves + spare),
        load=_past_policies(config, chat, engine, temperature=rules.temperature),
        solver=PerfectOpponent() if rules.optimum else None,
        team=team,
    )


def _past_policies(
    config: RunConfig, chat: ChatFormat, engine: Engine, *, temperature: float
) -> Callable[[Path], LanguagePolicy]:
    """Return what makes a player of the model folder of earlier weights."""

    def load(model_folder: Path) -> LanguagePolicy:
        loaded = load_folder(model_folder, device=config.model.device)
        past = TransformersEngine(
            loaded.model, stop_ids=chat.stop_ids, capacity_tokens=engine.capacity_tokens
        )
        return LanguagePolicy(past, temperature=temperature)

    return load


def _make_past_models(
    config: RunConfig,
    folder: Path,
    chat: ChatFormat,
    state: RunState,
    engine: Engine,
    team: Team,
) -> PastModels:
    return PastModels(
        _checkpoints(config, folder),
        folder / _CHECKPOINTS / "ratings.jsonl",
        sampling=config.opponent.partition(":")[2],
        every_steps=config.tracking.checkpoint_every_steps,
        load=_past_policies(config, chat, engine, temperature=config.rollout.temperature),
        version=lambda: state.step,
        team=team,
    )
