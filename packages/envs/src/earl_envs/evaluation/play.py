"""Playing games between opponents, many at once."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from earl_envs.batch import GameBatch
from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import EndReason
from earl_envs.opponents.base import Opponent, episode_rng
from earl_envs.opponents.pool import draw_opponent
from earl_envs.record import GameRecord
from earl_envs.registry import make_game
from earl_envs.replays.episode import EpisodeRecord


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Seating:
    """A game to play."""

    episode: int
    """Identity among the games of the same seed: every seat's stream of chance derives from it."""
    game_seed: int
    """Seeds the game's own chance."""
    players: tuple[str, ...]
    """Who plays each seat, by name."""


def play_games(
    game_id: str,
    players: Mapping[str, Opponent],
    seatings: Sequence[Seating],
    *,
    seed: int,
    params: Mapping[str, Any] | None = None,  # Any: each game has its own
) -> list[EpisodeRecord]:
    """Play every game to its end and return them in order.

    A game in which a player raises or answers with an illegal move ends with `opponent_error`, one
    whose rules fail with `env_error`; both score 0 for every seat. A game is the same whichever
    others are played beside it. A pool is drawn from once per game.

    Args:
        game_id: The game.
        players: Name -> who that is.
        seatings: What to play.
        seed: Base of the players' chance.
        params: Keyword arguments of the game's class.
    """
    game = make_game(game_id, **(params or {}))
    batch = GameBatch(game, seeds=[seating.game_seed for seating in seatings])
    chairs = [
        _chairs(game_id, players, seating, seed=seed, num_seats=game.num_seats)
        for seating in seatings
    ]
    errors: dict[int, str] = {}
    while waiting := [i for i in np.flatnonzero(~batch.done).tolist() if i not in errors]:
        chosen: dict[int, int] = {}
        for index in waiting:
            seat = int(batch.seats[index])
            player, rng = chairs[index][seat]
            action = attempt(_move, player, batch, index, rng)
            if isinstance(action, Failure):
                errors[index] = f"{seatings[index].players[seat]} in seat {seat}: {action.error}"
            else:
                chosen[index] = action
        if chosen:
            batch.step(list(chosen.values()), list(chosen))
    return [
        _record(
            GameRecord(
                game_id=game_id,
                params=dict(params or {}),
                seed=seating.game_seed,
                moves=batch.moves(index),
            ),
            seating,
            batch,
            index,
            errors.get(index),
        )
        for index, seating in enumerate(seatings)
    ]


def _chairs(
    game_id: str, players: Mapping[str, Opponent], seating: Seating, *, seed: int, num_seats: int
) -> list[tuple[Opponent, np.random.Generator]]:
    """The player and the stream of chance of each seat."""

    def stream(seat: int) -> np.random.Generator:
        return episode_rng(seed, game_id=game_id, episode=seating.episode, seat=seat)

    # Streams past the last seat belong to no seat: a pool is drawn from by them.
    drawn = {
        name: draw_opponent(players[name], stream(num_seats + place))
        for place, name in enumerate(dict.fromkeys(seating.players))
    }
    return [(drawn[name], stream(seat)) for seat, name in enumerate(seating.players)]


def _move(player: Opponent, batch: GameBatch, index: int, rng: np.random.Generator) -> int:
    legal = batch.legal(index)
    move = player.move(batch.game, batch.state(index), int(batch.seats[index]), rng)
    action = operator.index(move)
    if action not in legal:
        raise ValueError(f"the move {action} is not legal")
    return action


def _record(
    game: GameRecord, seating: Seating, batch: GameBatch, index: int, error: str | None
) -> EpisodeRecord:
    if error is not None:
        reason, detail = EndReason.OPPONENT_ERROR, error
    elif index in batch.failed:
        reason, detail = EndReason.ENV_ERROR, batch.failed[index]
    else:
        reason, detail = EndReason.FINISHED, ""
    return EpisodeRecord(
        game=game,
        players=seating.players,
        returns=tuple(batch.returns[index].tolist()),
        end_reason=reason,
        detail=detail,
    )
