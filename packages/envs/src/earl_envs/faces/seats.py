"""A game whose every seat is an agent with a name, as PettingZoo has it."""

from collections.abc import Mapping
from typing import Any, final

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from numpy.typing import NDArray

from earl_envs.faces.episode import Episode, EpisodeKey, Table, next_key
from earl_envs.faces.judge import Judge
from earl_envs.faces.options import as_seed, check_options
from earl_envs.faces.render import RENDER_MODES, render
from earl_envs.suggest import suggest

Seen = dict[str, NDArray[Any]]
"""An observation: `observation`, the board array, and `action_mask`, int8."""

_OPTIONS_OF_CHECKERS = {"options": 1}  # PettingZoo's own checkers pass them; they mean nothing


@final
class Seats:
    """What both environments share: agents by name, one space each, and the game in progress."""

    def __init__(
        self, game_id: str, params: Mapping[str, Any], *, illegal: str = "forfeit"
    ) -> None:
        self.table = Table.lay(game_id, params)
        self.names = [f"player_{seat}" for seat in range(self.table.game.num_seats)]
        num_actions = self.table.game.num_actions
        mask = Box(0, 1, (num_actions,), np.int8)
        self.observation_spaces = {
            name: Dict({"observation": self.table.board, "action_mask": mask})
            for name in self.names
        }
        self.action_spaces = {name: Discrete(num_actions) for name in self.names}
        self._judge = Judge(illegal)
        self._mover = -1
        self._key: EpisodeKey | None = None
        self._episode: Episode | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """What PettingZoo asks of every environment."""
        name = self.table.game_id.rpartition("/")[2].replace("-", "_").lower()
        return {
            "name": name,
            "render_modes": [*RENDER_MODES],
            "render_fps": 2,
            "is_parallelizable": False,
        }

    @property
    def episode(self) -> Episode:
        """The game in progress."""
        if self._episode is None:
            raise ValueError("no episode has begun: call reset()")
        return self._episode

    @property
    def reward(self) -> dict[str, float]:
        """Every agent's score once the game is over, else 0."""
        returns = self.episode.returns or (0.0,) * len(self.names)
        return dict(zip(self.names, returns, strict=True))

    def begin(self, seed: object, options: object) -> Episode:
        """Start the next episode."""
        check_options(None if options == _OPTIONS_OF_CHECKERS else options)
        self._key = next_key(self._key, as_seed(seed))
        self._judge.begin(self._key)
        self._episode = Episode(self.table, seed=self._key.game_seed)
        return self._episode

    def named(self, agent: object) -> str:
        """Return the name of an agent, which must be one of the game's."""
        if agent not in self.names:
            raise ValueError(suggest(str(agent), self.names, what="agent"))
        return str(agent)

    def act(self, action: object) -> None:
        """Make the move of the seat to move, or what the illegal-move policy has for it."""
        episode = self.episode
        mover = episode.seat
        self._judge.act(episode, action)
        self._mover = mover

    def observe(self, agent: str) -> Seen:
        """Return what an agent sees, at any time, in new arrays."""
        seat = self.names.index(self.named(agent))
        return {"observation": self.episode.observe(seat), "action_mask": self.episode.mask(seat)}

    def info(self, agent: str) -> dict[str, Any]:
        """Return an agent's info: `action_mask`, remarks on the mover's action, and `ending`."""
        seat, episode = self.names.index(self.named(agent)), self.episode
        remarks = self._judge.remarks if seat == self._mover else {}
        return {"action_mask": episode.mask(seat), **remarks, **episode.ending()}

    def render(self, mode: str | None) -> str | NDArray[np.uint8]:
        """Draw what the seat to move sees; after the end, seat 0."""
        episode = self.episode
        return render(mode, self.table.game, episode.state, max(0, episode.seat))
