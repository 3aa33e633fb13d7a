"""A game as a Gymnasium environment with numbered moves."""

from typing import Any, final

import numpy as np
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from earl_envs.faces.episode import EpisodeKey, Table
from earl_envs.faces.observation import Board
from earl_envs.faces.render import render
from earl_envs.faces.series import SeriesEnv
from earl_envs.faces.single_agent import SingleAgent
from earl_envs.opponents.base import Opponent
from earl_envs.record import GameRecord


@final
class GameEnv(SeriesEnv[Board, np.int64]):
    """Moves in, board arrays out; see `SeriesEnv` for seeds and copies.

    The observation is the board array of the agent's seat, `info["action_mask"]` (int8) marks the
    legal actions and `info["seat"]` names the seat. The reward is 0 until the end and then the
    seat's score. `terminated` says that the rules or a forfeit ended the game; `truncated` that
    something did which says nothing about the agent: an opponent or rules that failed, worth 0.
    The last info has `returns` (every seat's score), `winner` (-1 for none), `end_reason`, and for
    ends that the rules do not explain `detail`.

    An action outside the action space is refused with a ValueError. One that is not legal now
    forfeits the game, unless `illegal` says otherwise.

    Example:
        env = gymnasium.make("earl/ConnectFour-v0", opponent="random", seat=1)
        board, info = env.reset(seed=0)
        board, reward, terminated, truncated, info = env.step(3)
    """

    def __init__(
        self,
        game_id: str,
        *,
        opponent: str | Opponent | None = "random",
        seat: int = 0,
        illegal: str = "forfeit",
        render_mode: str | None = None,
        **params: Any,  # noqa: ANN401 - each game has its own
    ) -> None:
        """Seat the agent.

        Args:
            game_id: Built in, registered or installed.
            opponent: Plays all other seats, a player or the name of one; "self" or None lets the
                agent play every seat, each step rewarded with the score of the seat that moved.
            seat: The agent's, if there is an opponent.
            illegal: `forfeit`, `retry(k)`, `noop` or `random_legal`.
            render_mode: `ansi`, `rgb_array` or None.
            **params: Keyword arguments of the game's class.
        """
        super().__init__(render_mode=render_mode)
        table = Table.lay(game_id, params)
        self.observation_space = table.board
        self.action_space = Discrete(table.game.num_actions)
        self._agent = SingleAgent(table, opponent=opponent, seat=seat, illegal=illegal)

    def step(self, action: object) -> tuple[Board, float, bool, bool, dict[str, Any]]:
        """Make a move, any kind of integer, and let the others answer; see the class."""
        agent = self._agent
        agent.act(action)
        board = agent.observe()
        episode = agent.episode
        return board, agent.reward, episode.terminated, episode.truncated, agent.info()

    def render(self) -> str | NDArray[np.uint8]:
        """Draw what the agent's seat sees."""
        game, state = self._agent.table.game, self._agent.episode.state
        return render(self.render_mode, game, state, self._agent.seat)

    def record(self) -> GameRecord:
        """Return what replays the episode to its present state."""
        return self._agent.episode.record()

    def _begin(self, key: EpisodeKey) -> tuple[Board, dict[str, Any]]:
        self._agent.begin(key)
        return self._agent.observe(), self._agent.info()
