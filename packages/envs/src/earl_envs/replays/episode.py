"""An episode as it is kept: a game that replays, who played it and how it ended."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from earl_envs.end_reason import EndReason
from earl_envs.position import Position
from earl_envs.record import GameRecord


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """One episode of a game, complete enough to be replayed, judged and shown.

    Example:
        >>> match = play_match("earl/TicTacToe-v0", "random", "random", num_games=2, seed=0)
        >>> episode = match.episodes[0]
        >>> EpisodeRecord.from_json(episode.to_json()) == episode
        True
    """

    game: GameRecord
    players: Sequence[str]
    """Who played each seat, by name."""
    returns: Sequence[float]
    """Score of each seat, 0 where the episode failed or was cut."""
    end_reason: EndReason
    detail: str = ""
    """What went wrong, when something did."""
    replies: Sequence[str] = ()
    """What the players wrote, in the order of the turns; empty where they picked moves directly."""

    def positions(self) -> list[Position]:
        """Replay the game: the start and the position after every move; see `GameRecord`."""
        return self.game.positions()

    def to_json(self) -> str:
        """Return the episode as one line of JSON."""
        tree = {
            "game": json.loads(self.game.to_json()),
            "players": list(self.players),
            "returns": list(self.returns),
            "end_reason": self.end_reason,
            "detail": self.detail,
            "replies": list(self.replies),
        }
        return json.dumps(tree, separators=(",", ":"), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> "EpisodeRecord":
        """Read what `to_json` wrote."""
        tree = json.loads(line)
        return cls(
            game=GameRecord.from_json(json.dumps(tree["game"])),
            players=tuple(tree["players"]),
            returns=tuple(tree["returns"]),
            end_reason=EndReason(tree["end_reason"]),
            detail=tree["detail"],
            replies=tuple(tree["replies"]),
        )
