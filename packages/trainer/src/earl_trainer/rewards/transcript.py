"""What a reward function is shown of an episode."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GameTranscript:
    """One game of an episode; its id, seed and moves are what replays it."""

    seed: int
    moves: Sequence[int]
    """Of all seats, in the order they were played."""
    first_reply: int
    """Index of the seat's first reply in this game among the episode's."""
    end_reason: str
    """`finished`, `illegal_move`, ...: a value of `earl_envs.EndReason`."""
    outcome: float
    """Score of the learner's seat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """An episode as one seat lived it."""

    game_id: str
    seat: int
    replies: Sequence[str]
    """What the model wrote, turn by turn."""
    reply_tokens: Sequence[int]
    """The length of each, the token that ends a turn included."""
    games: Sequence[GameTranscript]
    """At least one."""
    outcome: float
    """The episode's score: the mean of its games'."""
    truncated: bool
    """Whether a token limit, and not the game, ended the episode or one of its replies."""
    num_games: int = 1
    """That the episode was to have, over which its score is the mean."""
    limit_s: float = 10.0
    """Longest time that a function may take for it: `reward.wall_s`."""

    @property
    def replies_of_games(self) -> Sequence[int]:
        """How many of the replies were the seat's in each game."""
        ends = (*(game.first_reply for game in self.games[1:]), len(self.replies))
        return tuple(end - game.first_reply for game, end in zip(self.games, ends, strict=True))

    @property
    def end_reason(self) -> str:
        """Why the last game ended."""
        return self.games[-1].end_reason

    @property
    def moves(self) -> Sequence[int]:
        """Moves of all games, one after the other."""
        return tuple(move for game in self.games for move in game.moves)
