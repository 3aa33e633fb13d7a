"""Which episodes a step plays."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from earl_trainer.seeding import derive_seed
from earl_trainer.types import EpisodeStart


def grouped_starts(
    seed: int,
    *,
    step: int,
    num_episodes: int,
    group_size: int,
    num_seats: int,
    num_games: int | Sequence[int] = 1,
) -> list[EpisodeStart]:
    """Plan one step's episodes: groups that share everything but the learner's own sampling.

    Seats alternate from group to group, so every seat is trained equally. Within a group the games
    and the opponent's random stream are the same, which leaves the replies as the only cause of
    different rewards until the games part.

    Args:
        seed: Of the phase.
        step: Of the run.
        num_episodes: Of all groups.
        group_size: Episodes of one.
        num_seats: Of the game.
        num_games: Of every episode, or of those of each group.

    Raises:
        ValueError: If `num_episodes` is not a multiple of `group_size`.
    """
    if num_episodes % group_size:
        raise ValueError(
            f"num_episodes must be a multiple of group_size, got {num_episodes} and {group_size}"
        )
    return [
        EpisodeStart(
            episode=episode,
            table=episode,
            group=episode // group_size,
            seat=(episode // group_size) % num_seats,
            game_seed=derive_seed(seed, "game", step, episode // group_size),
            reply_seed=derive_seed(seed, "reply", step, episode),
            num_games=_games_of(num_games, episode // group_size),
        )
        for episode in range(num_episodes)
    ]


def self_play_starts(
    seed: int,
    *,
    step: int,
    num_episodes: int,
    group_size: int,
    num_seats: int,
    num_games: int | Sequence[int] = 1,
) -> list[EpisodeStart]:
    """Plan one step's episodes where the learner plays every seat of every table.

    Each seat of a table is an episode of its own, with its own context and sampling. A group is
    `group_size` tables that start alike. The arguments are those of `grouped_starts`.

    Raises:
        ValueError: If `num_episodes` is not a multiple of `group_size` tables.
    """
    if num_episodes % (group_size * num_seats):
        raise ValueError(
            f"num_episodes must be a multiple of group_size times the game's {num_seats} seats, "
            f"got {num_episodes} and {group_size}"
        )
    return [
        EpisodeStart(
            episode=episode,
            table=episode // num_seats,
            group=episode // num_seats // group_size,
            seat=episode % num_seats,
            game_seed=derive_seed(seed, "game", step, episode // num_seats // group_size),
            reply_seed=derive_seed(seed, "reply", step, episode),
            num_games=_games_of(num_games, episode // num_seats // group_size),
        )
        for episode in range(num_episodes)
    ]


def add_greedy(starts: Sequence[EpisodeStart]) -> list[EpisodeStart]:
    """Add to every group a table at which the learner decodes greedily: the baseline of ReMax.

    It is like the group's first table, in everything but replies. Numbers of the others stay as
    they are, so that they are played as without it.

    Args:
        starts: Of a step, group by group.
    """
    num_tables = len({start.table for start in starts})
    planned: list[EpisodeStart] = []
    episode = len(starts)
    for place, (_, members) in enumerate(groupby(starts, key=lambda start: start.group)):
        group = list(members)
        first = [start for start in group if start.table == group[0].table]
        planned += group
        planned += [
            replace(start, episode=episode + seat, table=num_tables + place, greedy=True)
            for seat, start in enumerate(first)
        ]
        episode += len(first)
    return planned


def paired_starts(seed: int, *, num_games: int, num_seats: int) -> list[EpisodeStart]:
    """Plan a match: every game seed is played once from each seat, each game in its own context.

    Raises:
        ValueError: If `num_games` is not a multiple of `num_seats`.
    """
    if num_games % num_seats:
        raise ValueError(
            f"num_games must be a multiple of the game's {num_seats} seats, got {num_games}"
        )
    return [
        EpisodeStart(
            episode=episode,
            table=episode,
            group=episode // num_seats,
            seat=episode % num_seats,
            game_seed=derive_seed(seed, "match", episode // num_seats),
            reply_seed=derive_seed(seed, "match-reply", episode),
            match=True,
        )
        for episode in range(num_games)
    ]


def _games_of(num_games: int | Sequence[int], group: int) -> int:
    return num_games if isinstance(num_games, int) else num_games[group]
