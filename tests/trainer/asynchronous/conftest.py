"""Finished groups, and what workers are made from."""

import pytest
from earl_envs import EndReason
from earl_trainer.asynchronous.ledger import FinishedGroup
from earl_trainer.asynchronous.worker_engine import WorkerSettings
from earl_trainer.config import AsynchronousConfig, RolloutConfig, RunConfig
from earl_trainer.parallel.blueprint import Blueprint
from earl_trainer.types import Episode, EpisodeStart, PlayedGame, Turn


@pytest.fixture(scope="session")
def group():
    """Make finished groups."""
    return _finished


def _finished(number, *, version=0, reason=EndReason.FINISHED, turns=1):
    """A group of one episode, whose tokens came from `version` on."""
    turn = Turn(
        prompt_ids=(1,),
        reply_ids=(2, 3),
        logprobs=(-1.0, -1.0),
        versions=(version, version + 1),
        text="",
        action=0,
        cut=False,
    )
    game = PlayedGame(game_seed=0, first_turn=0, moves=(0,), end_reason=reason, outcome=1.0)
    start = EpisodeStart(
        episode=number, table=number, group=number, seat=0, game_seed=0, reply_seed=0
    )
    return FinishedGroup(
        number=number, episodes=[Episode(start=start, turns=(turn,) * turns, games=(game,))]
    )


@pytest.fixture
def make_settings(tiny_model, tiny_tokenizer):
    """Make what a worker is made from; the fields are those of the asynchronous config."""

    def make(*, max_reply_tokens=4, **fields):
        config = RunConfig(
            rollout=RolloutConfig(
                num_episodes=8,
                group_size=4,
                max_reply_tokens=max_reply_tokens,
                max_context_tokens=200,
            ),
            asynchronous=AsynchronousConfig(**fields),
        )
        return WorkerSettings(
            config=config,
            blueprint=Blueprint.of(tiny_model),
            tokenizer=tiny_tokenizer,
            capacity_tokens=4000,
        )

    return make
