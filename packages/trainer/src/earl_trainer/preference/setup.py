"""What a run's configuration makes of a method: where its samples come from."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from earl_dispatch import Columns

from earl_trainer.config import RunConfig
from earl_trainer.phases import Phase
from earl_trainer.preference.collection import DataCollection, PlayedCollection
from earl_trainer.preference.games import Graded, accepted_of, grade, judged_of, pairs_of
from earl_trainer.preference.lines import (
    Line,
    demonstration_columns,
    judged_columns,
    line_of,
    pair_columns,
)
from earl_trainer.preference.load import load_demonstrations, load_judged, load_pairs
from earl_trainer.preference.methods import METHODS, Method, Source
from earl_trainer.preference.mismatched import mismatched_lines
from earl_trainer.preference.spin import pairs_against
from earl_trainer.rewards.episodes import rewards_of
from earl_trainer.rollout.chat import ChatFormat
from earl_trainer.rollout.collection import Collection
from earl_trainer.rollout.collector import Rollout
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.seeding import derive_seed
from earl_trainer.types import Turn
from earl_trainer.workers.team import Team

_Example = TypeVar("_Example")
_Against = Callable[[Sequence[Sequence[Turn]], int], Columns]
"""From demonstrations and the step to pairs with the opponent's replies."""


def check_data(config: RunConfig, chat: ChatFormat) -> None:
    """Refuse a data set that does not fit the method, or contexts that are too long.

    Raises:
        ValueError: Naming the line and what is wrong with it.
    """
    if config.preference.data:
        source = METHODS[config.preference.name].source
        path, limit = Path(config.preference.data), config.rollout.max_context_tokens
        if source is Source.PAIRS:
            load_pairs(path, chat, max_tokens=limit)
        elif source is Source.JUDGED:
            load_judged(path, chat, max_tokens=limit)
        else:
            load_demonstrations(path, chat, max_tokens=limit)


def make_collection(
    config: RunConfig,
    phase: Phase,
    method: Method,
    play: Callable[[], Collection],
    *,
    chat: ChatFormat,
    opponent: Callable[[int], ReplyPolicy] | None = None,
    team: Team,
) -> Collection:
    """Make what brings the samples of a phase that learns from data or from games.

    Args:
        config: The run.
        phase: That learns.
        method: How.
        play: Makes the collection that plays the phase's games, if there are to be any.
        chat: Renders conversations.
        opponent: Tells for a step who answers against demonstrations, where somebody does.
        team: The workers.
    """

    def against(demonstrations: Sequence[Sequence[Turn]], step: int) -> Columns:
        assert opponent is not None, "a phase of such a method has an opponent"
        pairs = pairs_against(
            opponent(step),
            demonstrations,
            max_reply_tokens=config.rollout.max_reply_tokens,
            max_context_tokens=config.rollout.max_context_tokens,
            seed=derive_seed(config.seed, "spin", step, team.rank),
        )
        return pair_columns(pairs)

    if config.preference.data:
        return _from_data(config, phase, method, against, chat=chat, team=team)
    if method.source is Source.SHOWN:
        return play()  # As in warm-up, every episode is imitated.
    return PlayedCollection(
        play(), _of_games(config, method, against, team), team=team, wanted=method.source.value
    )


def _from_data(
    config: RunConfig,
    phase: Phase,
    method: Method,
    against: _Against,
    *,
    chat: ChatFormat,
    team: Team,
) -> Collection:
    path, limit = Path(config.preference.data), config.rollout.max_context_tokens

    def collection(
        examples: Sequence[_Example], build: Callable[[Sequence[_Example], int], Columns]
    ) -> Collection:
        return DataCollection(
            examples,
            build,
            per_step=phase.num_episodes,
            first_step=phase.first_step,
            seed=derive_seed(config.seed, phase.name),
            team=team,
            wanted=method.source.value,
        )

    if method.source is Source.PAIRS:
        pairs = load_pairs(path, chat, max_tokens=limit)
        return collection(pairs, lambda part, _: pair_columns(part))
    if method.source is Source.JUDGED:
        judged = load_judged(path, chat, max_tokens=limit)
        return collection(judged, lambda part, _: _judged(part, config, team))
    shown = load_demonstrations(path, chat, max_tokens=limit)
    if method.source is Source.AGAINST_SELF:
        return collection(shown, against)
    lines = [line_of(turns) for turns in shown]
    return collection(lines, lambda part, _: demonstration_columns(part))


def _of_games(
    config: RunConfig, method: Method, against: _Against, team: Team
) -> Callable[[Rollout, int], Columns]:
    threshold = config.preference.threshold

    def graded(rollout: Rollout) -> list[Graded]:
        return grade(
            rollout.episodes,
            rewards_of(rollout.summaries, config.reward),
            drop_truncated=config.reward.truncation == "mask",
        )

    def shown(rollout: Rollout) -> list[Sequence[Turn]]:
        return [each.turns for each in rollout.episodes if each.summary.trainable]

    makers: dict[Source, Callable[[Rollout, int], Columns]] = {
        Source.PAIRS: lambda rollout, _: pair_columns(pairs_of(graded(rollout))),
        Source.JUDGED: lambda rollout, _: _judged(
            judged_of(graded(rollout), threshold=threshold), config, team
        ),
        Source.ACCEPTED: lambda rollout, _: demonstration_columns(
            accepted_of(graded(rollout), threshold=threshold)
        ),
        Source.AGAINST_SELF: lambda rollout, step: against(shown(rollout), step),
    }
    return makers[method.source]


def _judged(judged: Sequence[tuple[Line, bool]], config: RunConfig, team: Team) -> Columns:
    mismatched = mismatched_lines(
        [line for line, _ in judged],
        max_tokens=config.rollout.max_context_tokens,
        workers=team.everyone,
    )
    return judged_columns(judged, mismatched)
