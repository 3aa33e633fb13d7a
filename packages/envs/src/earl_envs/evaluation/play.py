"""Playing games between opponents, many at once."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from earl_envs.batch import GameBatch
from earl_envs.boundary import Failure, attempt
from earl_envs.end_reason import EndReason
from earl_envs.opponents.asking import ask_each
from earl_envs.opponents.base import Opponent, episode_rng
from earl_envs.opponents.endpoint import NoLegalMoveError
from earl_envs.opponents.pool import draw_opponent
from earl_envs.record import GameRecord
from earl_envs.registry import make_game
from earl_envs.replays.episode import EpisodeRecord
from earl_envs.text.referee import forfeit_scores

_Chair = tuple[Opponent, np.random.Generator]
_Answer = int | NoLegalMoveError | Failure


class _Ending(NamedTuple):
    reason: EndReason
    returns: tuple[float, ...]
    detail: str


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

    A player that raises `NoLegalMoveError` forfeits. A game in which one raises anything else or
    answers with an illegal move ends with `opponent_error`, one whose rules fail with `env_error`;
    both score 0 for every seat. A game is the same whichever others are played beside it. Players
    are asked by `ask_each`, and a pool is drawn from once per game.

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
    endings: dict[int, _Ending] = {}
    while waiting := [i for i in np.flatnonzero(~batch.done).tolist() if i not in endings]:
        chosen: dict[int, int] = {}
        for index, answer in zip(waiting, _ask(batch, chairs, waiting), strict=True):
            if isinstance(answer, int):
                chosen[index] = answer
            else:
                endings[index] = _without_move(answer, seatings[index], batch, index)
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
            endings.get(index) or _by_rules(batch, index),
        )
        for index, seating in enumerate(seatings)
    ]


def _chairs(
    game_id: str, players: Mapping[str, Opponent], seating: Seating, *, seed: int, num_seats: int
) -> list[_Chair]:
    """The player and the stream of chance of each seat."""

    def stream(seat: int) -> np.random.Generator:
        return episode_rng(seed, game_id=game_id, episode=seating.episode, seat=seat)

    # Streams past the last seat belong to no seat: a pool is drawn from by them.
    drawn = {
        name: draw_opponent(players[name], stream(num_seats + place))
        for place, name in enumerate(dict.fromkeys(seating.players))
    }
    return [(drawn[name], stream(seat)) for seat, name in enumerate(seating.players)]


def _ask(
    batch: GameBatch, chairs: Sequence[Sequence[_Chair]], waiting: Sequence[int]
) -> list[_Answer]:
    movers = [chairs[index][int(batch.seats[index])] for index in waiting]

    def answer(place: int) -> _Answer:
        player, rng = movers[place]
        return attempt(_move, player, batch, waiting[place], rng)

    return ask_each([player for player, _ in movers], answer)


def _move(
    player: Opponent, batch: GameBatch, index: int, rng: np.random.Generator
) -> int | NoLegalMoveError:
    legal = batch.legal(index)
    try:
        move = player.move(batch.game, batch.state(index), int(batch.seats[index]), rng)
    except NoLegalMoveError as fault:
        return fault
    action = operator.index(move)
    if action not in legal:
        raise ValueError(f"the move {action} is not legal")
    return action


def _without_move(
    answer: NoLegalMoveError | Failure, seating: Seating, batch: GameBatch, index: int
) -> _Ending:
    seat = int(batch.seats[index])
    who = f"{seating.players[seat]} in seat {seat}"
    nothing = (0.0,) * batch.game.num_seats
    if isinstance(answer, Failure):
        return _Ending(EndReason.OPPONENT_ERROR, nothing, f"{who}: {answer.error}")
    scores = attempt(forfeit_scores, batch.game, seat)
    if isinstance(scores, Failure):
        return _Ending(EndReason.ENV_ERROR, nothing, scores.error)
    return _Ending(EndReason(answer.failure), scores, f"{who}: {answer}")


def _by_rules(batch: GameBatch, index: int) -> _Ending:
    returns = tuple(batch.returns[index].tolist())
    if index in batch.failed:
        return _Ending(EndReason.ENV_ERROR, returns, batch.failed[index])
    return _Ending(EndReason.FINISHED, returns, "")


def _record(game: GameRecord, seating: Seating, ending: _Ending) -> EpisodeRecord:
    return EpisodeRecord(
        game=game,
        players=seating.players,
        returns=ending.returns,
        end_reason=ending.reason,
        detail=ending.detail,
    )
