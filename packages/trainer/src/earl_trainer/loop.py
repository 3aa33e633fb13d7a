"""The training loop: rollout, experience preparation, dispatch, update, new weights.

Synchronous and asynchronous training are this loop. What differs is the collection of a phase: one
plays a step's episodes when it is asked for them, the other hands out what others have played since
(`earl_trainer.asynchronous.collection` draws who waits for whom).
"""

from contextlib import closing

from earl_trainer.experience.samples import add_staleness, build_columns
from earl_trainer.interrupts import interrupts_deferred
from earl_trainer.phases import Phase
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rollout.collection import RolloutRequest
from earl_trainer.run import Run
from earl_trainer.seeding import derive_seed
from earl_trainer.stages import Stages
from earl_trainer.staging import enter
from earl_trainer.tracking.metrics import StageClock
from earl_trainer.tracking.step import StepOutcome, StepShare


def train(run: Run) -> None:
    """Train from where the run stands to its end; all workers of its team go through it."""
    for phase in run.phases:
        if run.state.step <= phase.first_step:
            run.evaluate(phase.evaluation)
        if run.goes_on(phase):
            with closing(enter(run, phase)) as stages:
                while run.goes_on(phase):
                    run.examine()
                    train_step(run, phase, stages)
    run.evaluate("after")
    run.examine(at_end=True)


def train_step(run: Run, phase: Phase, stages: Stages) -> None:
    """Play, prepare, dispatch, learn: one step, after which the engine has the new weights.

    Ctrl-C drops a step before the learner starts, as nothing has changed, and waits for it after.
    """
    config, step, team = run.config, run.state.step, run.team
    clock, display = StageClock(), run.tracker.display
    choice = run.decide(phase.num_played)
    with clock.stage("rollout"):
        rollout = stages.collection.collect(
            RolloutRequest(
                step=step,
                share_tokens=choice.share_tokens,
                max_responses=choice.decision.max_responses,
                on_turn=lambda progress: display.stage("rollout", progress),
            )
        )
        rewards = rewards_of(rollout.summaries, config.reward)
    columns = rollout.samples or build_columns(rollout.episodes, config.reward)
    with clock.stage("prepare"):
        display.stage("prepare")
        columns = stages.preparer.prepare(columns)
        columns = stages.estimate(columns, rollout.summaries, rewards, config.reward)
        columns = stages.experience.mix(columns, step)
    with clock.stage("dispatch"):
        delivery = stages.feed.send(columns, seed=derive_seed(config.seed, "shuffle", step))
    with interrupts_deferred(lambda: display.note("Ctrl-C: finishing this step first")):
        with clock.stage("update"):
            updates = stages.learner.update(
                add_staleness(delivery.batch, step),
                delivery.minibatches,
                lr=phase.lr(step),
                on_minibatch=lambda done, total: display.stage("update", f"{done}/{total} tokens"),
            )
            run.publish(stages.collection)
        outcome = StepOutcome(
            step=step,
            phase=phase.name,
            lr=phase.lr(step),
            shares=team.everyone.gather(StepShare.of(rollout, rewards, columns, clock, step)),
            choice=choice,
            collected=stages.collection.figures,
            prepared=stages.preparation_figures,
            delivery=delivery,
            updates=updates,
            clock=clock,
        )
        run.complete_step(outcome, choice.selector)
