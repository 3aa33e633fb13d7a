"""Each reply told what it made of the position, by search to the end."""

from itertools import accumulate

from earl_envs import GameRecord

from earl_trainer.rewards.functions.position_values import values_of
from earl_trainer.rewards.potential import potential_based
from earl_trainer.rewards.transcript import GameTranscript, Transcript


def solved_value(transcript: Transcript) -> list[float]:
    """Return what an episode is worth in front of each of the seat's replies, if all play best.

    That is the score of the games before and the value of the position that the reply faces
    (`PositionValues`), over the games that the episode was to have, as an outcome is their mean.

    Raises:
        ValueError: If the game is not one of two opposed seats, or too large to be searched.
    """
    earlier = accumulate((game.outcome for game in transcript.games), initial=0.0)
    played = zip(transcript.games, transcript.replies_of_games, earlier, strict=False)
    return [
        (score + value) / transcript.num_games
        for game, num_replies, score in played
        for value in _faced(transcript, game)[:num_replies]
    ]


def _faced(transcript: Transcript, played: GameTranscript) -> list[float]:
    """Value the positions of a game in which the seat was to move, one without a reply at last."""
    values = values_of(transcript.game_id)
    record = GameRecord(game_id=transcript.game_id, seed=played.seed, moves=played.moves)
    return [
        values.of(position.state, transcript.seat)
        for position in record.positions()
        if position.seat == transcript.seat
    ]


value_shaping = potential_based(solved_value)
"""What each reply, and the other seat's answer to it, changed of `solved_value`.

A reply that loses what was a draw gets -1 if the other seat makes use of it, whatever comes later.
The last one of the episode gets minus what the episode was worth before it; together with the
outcome, weighed alike, that is what it made of it. For `advantage.discount` 1.
"""
