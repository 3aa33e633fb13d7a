"""Playing a match, shared by all workers that play."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from earl_trainer.rollout.collector import Collector
from earl_trainer.rollout.policies import ReplyPolicy
from earl_trainer.rollout.starts import paired_starts
from earl_trainer.types import EpisodeSummary
from earl_trainer.workers.team import Team


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class MatchPlan:
    """Which games a match consists of, and how many are played at once."""

    seed: int
    num_games: int
    num_seats: int
    games_at_once: int
    """Of one worker, so that a match takes no more memory than a step."""


def play_match(
    collector: Collector,
    policy: ReplyPolicy,
    plan: MatchPlan,
    team: Team,
    show: Callable[[str], None],
) -> list[EpisodeSummary]:
    """Play a match and return its games, those of all workers, on each of them.

    Args:
        collector: Knows the opponent.
        policy: Plays one seat of each game.
        plan: The games.
        team: All of it has to call.
        show: Is told how far it is.
    """
    starts = team.share(
        paired_starts(plan.seed, num_games=plan.num_games, num_seats=plan.num_seats)
    )
    played = list[EpisodeSummary]()
    while rest := starts[len(played) :]:
        rollout = collector.collect(
            policy,
            rest[: plan.games_at_once],
            on_turn=lambda live: show(f"{len(played)} played, {live} running"),
        )
        played.extend(rollout.summaries)
    return [episode for part in team.everyone.all_gather(played) for episode in part]
