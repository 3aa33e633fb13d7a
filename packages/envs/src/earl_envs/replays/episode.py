"""An episode as it is kept: a game that replays, who played it and how it ended."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, final

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
    """What the players wrote, in the order they wrote it and wrong replies too; a move picked
    directly adds nothing."""

    def positions(self) -> list[Position]:
        """Replay the game: the start and the position after every move; see `GameRecord`."""
        return self.game.positions()

    def to_json(self) -> str:
        """Return the episode as one line of JSON.

        Raises:
            ValueError: If a score is not finite, or a parameter is nothing that JSON has.
        """
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
        """Read what `to_json` wrote.

        Raises:
            ValueError: If it is no JSON object with these six fields, each of its kind.
        """
        tree: object = json.loads(line)
        values = cast("dict[str, Any]", tree if isinstance(tree, dict) else {})
        if "games" in values and "game" not in values:
            raise ValueError(
                "it is one of a training run, whose lines hold several games and are read by "
                "earl_trainer.tracking.episode_rows.episode_records"
            )
        for name, (kind, is_sound) in _FIELDS.items():
            if not is_sound(values.get(name)):
                raise ValueError(f"{name} of an episode must be {kind}, got {values.get(name)!r}")
        if len(values["players"]) != len(values["returns"]):
            raise ValueError(
                f"an episode has one return per player, got {values['players']} and "
                f"{values['returns']}"
            )
        return cls(
            game=GameRecord.from_json(json.dumps(values["game"])),
            players=tuple(values["players"]),
            returns=tuple(values["returns"]),
            end_reason=EndReason(values["end_reason"]),
            detail=values["detail"],
            replies=tuple(values["replies"]),
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, cast("list[object]", value)))


def _are_scores(value: object) -> bool:
    return isinstance(value, list) and all(
        type(score) in (int, float) and math.isfinite(cast("float", score))
        for score in cast("list[object]", value)
    )


_FIELDS: Mapping[str, tuple[str, Callable[[object], bool]]] = {
    "game": ("an object", lambda value: isinstance(value, dict)),
    "players": ("a list of names", _are_texts),
    "returns": ("a list of finite numbers", _are_scores),
    "end_reason": ("a text", _is_text),
    "detail": ("a text", _is_text),
    "replies": ("a list of texts", _are_texts),
}
"""What a line holds, and what makes each field one."""
