"""A game as one agent meets it."""

from typing import Any, final

from earl_envs.faces.episode import Episode, EpisodeKey, Table
from earl_envs.faces.judge import Judge
from earl_envs.faces.observation import Board
from earl_envs.faces.others import Others
from earl_envs.opponents.base import Opponent


@final
class SingleAgent:
    """One episode after another, seen from the agent's seat; an opponent plays the others.

    Lifecycle: `begin` starts an episode and lets the others move up to the agent's first turn;
    `act` makes the agent's move and lets them answer. An opponent that raises or moves illegally
    ends the episode as `opponent_error`, worth 0. If an episode fails before the agent's first
    turn, `act` takes one action, whatever it is, so that a step reports the failure.

    Without an opponent the agent plays every seat, and `seat` follows the turns.

    Attributes:
        table: The game.
        episode: The game in progress.
        seat: The seat whose view is shown: the agent's, or without an opponent the one to move,
            and at the end the one that moved last.
    """

    def __init__(
        self, table: Table, *, opponent: str | Opponent | None, seat: int, illegal: str
    ) -> None:
        """Seat the agent.

        Args:
            table: The game.
            opponent: A player or the name of one; "self" or None lets the agent play every seat.
            seat: The agent's, if there is an opponent.
            illegal: What an illegal action leads to; see `Judge`.
        """
        self.table = table
        self.others = Others(table.game_id, table.game, opponent=opponent, seat=seat)
        self.seat = self._mover = self.others.seat
        self._judge = Judge(illegal)
        self._episode: Episode | None = None
        self._has_acted = False

    @property
    def episode(self) -> Episode:
        """The game in progress."""
        if self._episode is None:
            raise ValueError("no episode has begun: call reset()")
        return self._episode

    @property
    def reward(self) -> float:
        """The score of the seat that acted last, 0 until the game is over."""
        returns = self.episode.returns
        return 0.0 if returns is None else returns[self._mover]

    def begin(self, key: EpisodeKey) -> None:
        """Start the episode that `key` names."""
        self._episode = Episode(self.table, seed=key.game_seed)
        self._has_acted = False
        self._judge.begin(key)
        self.others.begin(key)
        self._let_others_play(self._episode)

    def act(self, action: object) -> None:
        """Make the agent's move.

        Raises:
            ValueError: If the episode is over, or the action no integer or outside `num_actions`.
        """
        episode = self.episode
        if episode.end_reason is not None and self._has_acted:
            raise ValueError(f"the episode is over ({episode.end_reason}): call reset()")
        self._judge.act(episode, action)
        self._has_acted = True
        self._mover = self.seat
        self._let_others_play(episode)

    def observe(self) -> Board:
        """Return the board array of `seat`, in a new array."""
        return self.episode.observe(self.seat)

    def info(self) -> dict[str, Any]:  # Any: values of several types, as Gymnasium's infos have
        """Return a new info: `action_mask` and `seat`, the remarks of `Judge`, and `ending`."""
        episode = self.episode
        mask = episode.mask(self.seat)
        return {"action_mask": mask, "seat": self.seat, **self._judge.remarks, **episode.ending()}

    def _let_others_play(self, episode: Episode) -> None:
        self.others.play(episode)
        if self.others.opponent is None:
            self.seat = episode.seat if episode.seat >= 0 else self._mover
