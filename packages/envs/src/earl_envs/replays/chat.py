"""An episode that was played by text, as it is kept."""

from collections.abc import Sequence
from typing import Any

from earl_envs.replays.episode import EpisodeRecord
from earl_envs.text.chat_env import ChatEnv


def chat_episode(
    env: ChatEnv,
    game_id: str,
    *,
    players: Sequence[str],
    **params: Any,  # noqa: ANN401 - as `make_game`
) -> EpisodeRecord:
    """Return a finished episode with everything its players wrote.

    Args:
        env: Its episode must be over.
        game_id: The id of the game.
        players: Who played each seat, by name.
        **params: Parameters of the game.

    Raises:
        ValueError: If the episode is not over, or there are not as many players as seats.
    """
    if env.returns is None or env.end_reason is None:
        raise ValueError("an episode is kept when it is over, this one runs or was never begun")
    if len(players) != env.game.num_seats:
        raise ValueError(f"players must name {env.game.num_seats} seats, got {[*players]}")
    return EpisodeRecord(
        game=env.record(game_id, **params),
        players=tuple(players),
        returns=env.returns,
        end_reason=env.end_reason,
        detail=env.detail,
        replies=env.replies,
    )
