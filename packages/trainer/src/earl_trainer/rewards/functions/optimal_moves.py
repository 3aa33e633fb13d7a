"""How good moves were, by search to the end."""

from itertools import pairwise

from earl_envs import GameRecord, make_game

from earl_trainer.rewards.functions.position_values import TOLERANCE, values_of
from earl_trainer.rewards.transcript import GameTranscript, Transcript


def optimal_moves(transcript: Transcript) -> float:
    """Return the share of the seat's moves that kept the value of the position.

    The value is that of `PositionValues`, for games of two opposed seats that hide nothing and are
    small enough to be searched.

    Raises:
        ValueError: If the game is another one, or the seat has made no move.
    """
    kept = [
        each for game in transcript.games for each in _kept(transcript.game_id, transcript, game)
    ]
    if not kept:
        raise ValueError("the seat has made no move")
    return sum(kept) / len(kept)


def _kept(game_id: str, transcript: Transcript, played: GameTranscript) -> list[bool]:
    game, seat = make_game(game_id), transcript.seat
    record = GameRecord(game_id=game_id, seed=played.seed, moves=played.moves)
    states = [position.state for position in record.positions()]
    values = values_of(game_id)
    return [
        values.of(after, seat) >= values.of(before, seat) - TOLERANCE
        for before, after in pairwise(states)
        if game.seat(before) == seat
    ]
