"""Many games side by side, each as its agent meets it: what a vector environment is made of."""

from collections.abc import Hashable, Sequence
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from earl_envs.faces.episode import EpisodeKey, Table
from earl_envs.faces.single_agent import SingleAgent
from earl_envs.opponents.base import Opponent
from earl_envs.record import GameRecord


@runtime_checkable
class Lanes(Protocol):
    """N games; any subset is begun or stepped. The arrays are the lanes' own and change with them.

    Attributes:
        boards: What each agent sees. [N, ...]
        seats: Whose view that is. [N] int64
        rewards: What each agent's latest action earned. [N] float64
        terminated: Whether that action ended the game by the rules or a forfeit. [N] bool
        truncated: Whether it was the last for another reason. [N] bool
    """

    boards: NDArray[Any]
    seats: NDArray[np.int64]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]

    def begin(self, slots: NDArray[np.intp], keys: Sequence[EpisodeKey]) -> None:
        """Start the episodes that the keys name, one per slot."""
        ...

    def act(self, slots: NDArray[np.intp], actions: NDArray[np.int64]) -> None:
        """Make the agents' moves, one per slot, and let the others answer."""
        ...

    def infos(self, slots: NDArray[np.intp]) -> dict[str, Any]:
        """Return the infos of some games, as Gymnasium batches them, in new arrays."""
        ...

    def state(self, slot: int) -> Hashable:
        """Return the state of a game."""
        ...

    def record(self, slot: int) -> GameRecord:
        """Return what replays a game to its present state."""
        ...


@final
class AgentLanes:
    """Lanes of any game against any opponent, one `SingleAgent` each; see `Lanes`."""

    def __init__(
        self,
        table: Table,
        num_lanes: int,
        *,
        opponent: str | Opponent | None,
        seat: int,
        illegal: str,
    ) -> None:
        self._agents = [
            SingleAgent(table, opponent=opponent, seat=seat, illegal=illegal)
            for _ in range(num_lanes)
        ]
        self.boards = np.zeros((num_lanes, *table.board.shape), table.board.dtype)
        self.seats = np.full(num_lanes, seat, np.int64)
        self.rewards = np.zeros(num_lanes, np.float64)
        self.terminated = np.zeros(num_lanes, np.bool_)
        self.truncated = np.zeros(num_lanes, np.bool_)

    def begin(self, slots: NDArray[np.intp], keys: Sequence[EpisodeKey]) -> None:
        """Start the episodes that the keys name, one per slot."""
        for slot, key in zip(slots.tolist(), keys, strict=True):
            agent = self._agents[slot]
            agent.begin(key)
            self.boards[slot] = agent.observe()
            self.seats[slot] = agent.seat
        # A game that failed at once is reported by its first step.
        self.rewards[slots], self.terminated[slots], self.truncated[slots] = 0.0, False, False

    def act(self, slots: NDArray[np.intp], actions: NDArray[np.int64]) -> None:
        """Make the agents' moves, one per slot, and let the others answer."""
        for slot, action in zip(slots.tolist(), actions.tolist(), strict=True):
            agent = self._agents[slot]
            agent.act(action)
            self.boards[slot] = agent.observe()
            self.seats[slot] = agent.seat
            self.rewards[slot] = agent.reward
            self.terminated[slot] = agent.episode.terminated
            self.truncated[slot] = agent.episode.truncated

    def infos(self, slots: NDArray[np.intp]) -> dict[str, Any]:
        """Return the infos of some games, as Gymnasium batches them, in new arrays."""
        infos = {slot: self._agents[slot].info() for slot in slots.tolist()}
        return stack_infos(infos, len(self._agents))

    def state(self, slot: int) -> Hashable:
        """Return the state of a game."""
        return self._agents[slot].episode.state

    def record(self, slot: int) -> GameRecord:
        """Return what replays a game to its present state."""
        return self._agents[slot].episode.record()


def stack_infos(infos: dict[int, dict[str, Any]], num_lanes: int) -> dict[str, Any]:
    """Batch the infos of some slots as `gymnasium.vector.VectorEnv` documents it.

    Returns:
        For every name an array over all slots, zero or None where a slot has no such entry, and
        under `_name` which slots have one. Only numbers and arrays keep their type.
    """
    stacked: dict[str, Any] = {}
    for slot, info in infos.items():
        for name, value in info.items():
            if name not in stacked:
                stacked[name] = _empty_column(value, num_lanes)
                stacked[f"_{name}"] = np.zeros(num_lanes, np.bool_)
            stacked[name][slot] = value
            stacked[f"_{name}"][slot] = True
    return stacked


def _empty_column(value: object, num_lanes: int) -> NDArray[Any]:
    if isinstance(value, np.ndarray):
        return np.zeros((num_lanes, *value.shape), value.dtype)
    if isinstance(value, int | float | np.number):
        return np.zeros(num_lanes, type(value))
    return np.full(num_lanes, None, np.object_)
