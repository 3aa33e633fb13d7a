"""Gymnasium environments whose episodes come in series, one series a seed."""

from abc import ABC, abstractmethod
from typing import Any, SupportsIndex

import gymnasium
from gymnasium.core import ActType, ObsType

from earl_envs.faces.episode import EpisodeKey, next_key
from earl_envs.faces.options import as_seed, check_options
from earl_envs.faces.render import RENDER_MODES, check_render_mode


class SeriesEnv(gymnasium.Env[ObsType, ActType], ABC):
    """What the environments of a game share, whatever they observe.

    Episode k after `reset(seed=s)` depends on s and k alone, opponents included. A copy made in
    mid-game, by deepcopy or pickle, has the same state and the same future.
    """

    metadata: dict[str, Any] = {"render_modes": [*RENDER_MODES], "render_fps": 2}  # noqa: RUF012

    def __init__(self, *, render_mode: str | None) -> None:
        check_render_mode(render_mode)
        self.render_mode = render_mode
        self._key: EpisodeKey | None = None

    def reset(
        self, *, seed: SupportsIndex | None = None, options: dict[str, Any] | None = None
    ) -> tuple[ObsType, dict[str, Any]]:
        """Begin a new series of episodes, or without a seed the next episode of the series."""
        check_options(options)
        seed = as_seed(seed)
        super().reset(seed=seed)
        first = self.np_random_seed if self._key is None else None
        self._key = next_key(self._key, first if seed is None else seed)
        return self._begin(self._key)

    @abstractmethod
    def _begin(self, key: EpisodeKey) -> tuple[ObsType, dict[str, Any]]:
        """Begin the episode that `key` names, and return what `reset` does."""
