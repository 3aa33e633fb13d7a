"""Entering a phase: which stages its steps go through, as the configuration has it."""

from functools import partial

import torch
from transformers import PreTrainedModel

from earl_trainer.asynchronous.setup import make_background_collection, under_way_after
from earl_trainer.experience.curriculum_collection import CurriculumCollection
from earl_trainer.experience.curriculum_setup import make_level_player
from earl_trainer.experience.filter_setup import filter_collection
from earl_trainer.experience.mixing import Experience, FreshOnly, make_experience, rows_origin
from earl_trainer.experience.transfer import LearnerFeed
from earl_trainer.experience.valued_prepare import PreparationStage
from earl_trainer.guards.reward_normaliser import RewardNormaliser
from earl_trainer.learner.critic import ActorCritic, make_critic
from earl_trainer.learner.learner import AbsentLearner, Learner
from earl_trainer.models.int8 import quantise
from earl_trainer.models.load import load_folder
from earl_trainer.phase_stages import (
    add_values,
    freeze_copy,
    make_estimator,
    make_learner,
    make_preparer,
)
from earl_trainer.phases import GUARDED, RL, Phase
from earl_trainer.preference.anchor import Anchor
from earl_trainer.preference.methods import Reference
from earl_trainer.preference.setup import make_collection
from earl_trainer.preparation import make_rank_preparer
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rewards.learning import REWARD_MODEL, labelling
from earl_trainer.rewards.setup import make_judge, score_episodes
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collection import Collection, InlineCollection
from earl_trainer.rollout.league import LeagueCollection
from earl_trainer.rollout.policies import ScriptedPolicy
from earl_trainer.run import Run
from earl_trainer.stages import LEARNER_FILE, Stages


def enter(run: Run, phase: Phase) -> Stages:
    """Make the stages of a phase, as they were if the run resumes inside it."""
    resumes = run.state.step > phase.first_step
    anchor = _make_anchor(run, phase, resumes=resumes)
    reference = _reference(run, resumes=resumes) if phase.needs_reference else None
    if anchor is not None:
        reference = anchor.model
    critic = make_critic(run.model) if phase.algorithm.needs_critic else None
    learner = _make_learner(run, phase, critic, resumes=resumes) if run.team.learns else None
    if critic is not None:
        run.team.equalise(critic)
    preparer = add_values(run.config, _make_preparer(run, phase, reference), critic)
    estimator = make_estimator(
        phase, run.config, num_seats=run.game.num_seats, workers=run.team.everyone
    )
    if resumes:
        preparer.restore(run.state.preparation)
        estimator.restore(run.state.estimation)
    run.stages = Stages(
        collection=_make_collection(run, phase, anchor, resumes=resumes),
        preparer=preparer,
        normaliser=RewardNormaliser(
            run.config.guards.normalise_rewards if phase.name == RL else "off",
            run.state.rewards,
            run.team.everyone,
        ),
        estimator=estimator,
        experience=_make_experience(run, phase, preparer, resumes=resumes),
        feed=_make_feed(run),
        learner=learner or AbsentLearner(),
        critic=critic,
        anchor=anchor,
    )
    starts = phase.name in GUARDED and not resumes
    if starts and run.team.is_first and run.guardian.panel.rolls_back:
        run.save()  # There is something to go back to.
    return run.stages


def _make_collection(run: Run, phase: Phase, anchor: Anchor | None, *, resumes: bool) -> Collection:
    collection = _make_player(run, phase, anchor, resumes=resumes)
    if phase.name == RL:
        collection = filter_collection(
            collection,
            run.config,
            phase,
            partial(rewards_of, config=run.config.reward),
            run.team.everyone,
            num_seats=run.game.num_seats,
        )
    return collection


def _make_player(run: Run, phase: Phase, anchor: Anchor | None, *, resumes: bool) -> Collection:
    if phase.name == RL and run.config.is_asynchronous:
        background = make_background_collection(
            run.config,
            phase,
            model=run.model,
            tokenizer=run.tokenizer,
            capacity_tokens=run.engine.capacity_tokens,
            num_seats=run.game.num_seats,
            under_way=(run.state.collection if resumes else {})
            or under_way_after(
                run.state.step - phase.first_step, phase, num_seats=run.game.num_seats
            ),
            note=run.tracker.display.note,
        )
        background.publish(run.model, run.state.step)
        return _scored(run, background)
    if phase.method is not None:
        return make_collection(
            labelling(run.config) if phase.name == REWARD_MODEL else run.config,
            phase,
            phase.method,
            lambda: _make_inline_collection(run, phase, resumes=resumes),
            chat=ChatFormat(run.tokenizer),
            opponent=None if anchor is None else anchor.at,
            team=run.team,
        )
    return _make_inline_collection(run, phase, resumes=resumes)


def _make_inline_collection(run: Run, phase: Phase, *, resumes: bool) -> Collection:
    # What a script plays is imitated, whatever its reward.
    rewarded = run.team.plays and not isinstance(phase.policy, ScriptedPolicy)
    levels = (
        make_level_player(
            run.config,
            ChatFormat(run.tokenizer),
            run.state.collection if resumes else {},
        )
        if phase.name == RL and run.config.experience.curriculum
        else None
    )
    games: Collection = InlineCollection(
        levels or run.collector,
        phase,
        run.team,
        seed=run.config.seed,
        num_seats=run.game.num_seats,
        judge=make_judge(run.config) if rewarded else None,
    )
    if levels is not None:
        games = CurriculumCollection(
            games, levels, run.team.everyone, note=run.tracker.display.note
        )
    if run.collector.past is not None and not isinstance(phase.policy, ScriptedPolicy):
        games = LeagueCollection(games, run.collector.past, run.tracker.display.note)
    # A reward model learns from what is known without one.
    return _scored(run, games) if rewarded and phase.name != REWARD_MODEL else games


def _scored(run: Run, games: Collection) -> Collection:
    return score_episodes(
        run.config,
        games,
        own=run.reward_model,
        policy=run.model,
        decode=lambda ids: str(run.tokenizer.decode(list(ids))),
    )


def _make_experience(
    run: Run, phase: Phase, preparer: PreparationStage, *, resumes: bool
) -> Experience:
    if phase.name != RL:
        return FreshOnly()
    return make_experience(
        run.config.experience,
        preparer.prepare,
        seed=run.config.seed,
        origin=rows_origin(run.config.env, run.tokenizer),
        progress=phase.progress,
        resumed_from=run.resumed_from if resumes else None,
    )


def _make_preparer(run: Run, phase: Phase, reference: PreTrainedModel | None) -> PreparationStage:
    if run.config.selector.prepare_on == "learner" or not run.team.plays:
        return make_preparer(phase, run.config, run.model, reference, run.team.everyone)
    return make_rank_preparer(
        run.config,
        run.model,
        run.engine,
        phase,
        degrees=run.selector.usable_degrees,
        reference=reference,
        folder=run.folder,
        note=run.tracker.display.note,
    )


def _make_learner(
    run: Run, phase: Phase, critic: PreTrainedModel | None, *, resumes: bool
) -> Learner | ActorCritic:
    rewards, step = run.reward_model, run.state.step
    trained = rewards.model if rewards.is_learned_at(step) else run.model
    learner = make_learner(phase, run.config, trained, critic, run.team.learners)
    if resumes:
        assert run.resumed_from is not None
        learner.load_state_dict(torch.load(run.resumed_from / LEARNER_FILE, map_location="cpu"))
    return learner


def _make_feed(run: Run) -> LearnerFeed:
    learner, dispatch = run.config.learner, run.config.dispatch
    return LearnerFeed(
        run.team,
        transport=dispatch.transport_of(run.team.size),
        num_minibatches=learner.num_minibatches,
        num_epochs=learner.num_epochs,
        timeout_s=dispatch.timeout_s,
        max_buffer_bytes=dispatch.max_buffer_bytes or None,
    )


def _make_anchor(run: Run, phase: Phase, *, resumes: bool) -> Anchor | None:
    """Make whom the learner is paired with, where the phase's method wants somebody."""
    if phase.method is None or phase.method.reference is not Reference.ITERATE:
        return None
    anchor = Anchor(
        freeze_copy(run.model),
        run.model,
        first_step=phase.first_step,
        iterate_steps=run.config.preference.iterate_steps,
        temperature=run.config.rollout.temperature,
        stop_ids=ChatFormat(run.tokenizer).stop_ids,
        capacity_tokens=run.engine.capacity_tokens,
    )
    if resumes:
        assert run.resumed_from is not None
        anchor.restore(run.resumed_from)
    return anchor


def _reference(run: Run, *, resumes: bool) -> PreTrainedModel:
    folder = run.folder / "reference"
    if not run.team.plays:
        return run.model  # It has no row to score.
    if resumes:
        reference = freeze_copy(load_folder(folder, device=run.config.model.device).model)
    else:
        if run.team.is_first:
            run.save_model(folder)
        reference = freeze_copy(run.model)
    return quantise(reference) if run.config.model.reference_dtype == "int8" else reference
