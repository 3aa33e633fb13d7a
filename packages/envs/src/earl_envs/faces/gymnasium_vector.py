"""A game as a Gymnasium vector environment."""

from collections.abc import Sequence
from typing import Any, SupportsIndex, cast, final

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from earl_envs.batch import GameBatch, make_batch
from earl_envs.checks import whole_number
from earl_envs.faces.episode import EpisodeKey, Table, next_key
from earl_envs.faces.kernel_lanes import KernelLanes
from earl_envs.faces.lanes import AgentLanes, Lanes
from earl_envs.faces.options import as_seed, check_options
from earl_envs.faces.others import as_opponent, check_seat
from earl_envs.faces.render import RENDER_MODES, check_render_mode, render
from earl_envs.kernels.names import kernel_name
from earl_envs.opponents.base import Opponent, RandomOpponent
from earl_envs.record import GameRecord
from earl_envs.suggest import suggest

Steps = tuple[
    NDArray[Any], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]
]
"""Boards, rewards, terminations, truncations, infos."""


@final
class GameVectorEnv(VectorEnv[NDArray[Any], NDArray[Any], NDArray[Any]]):
    """N games in one process; each is the `GameEnv` of its own seed, move for move.

    Environment i of `reset(seed=s)` plays the episodes of seed s + i. What follows an end is
    `autoreset_mode`: with NEXT_STEP the next step begins the next episode, whatever the action;
    with SAME_STEP the same step does and the end is in `final_obs` and `final_info`; with DISABLED
    only `reset(options={"reset_mask": mask})` does, and until then stepping is refused.

    Games with compiled rules run on them if the opponent is the random one or none, and illegal
    actions forfeit.

    Example:
        envs = gymnasium.make_vec("earl/ConnectFour-v0", num_envs=1024)
        boards, infos = envs.reset(seed=0)
        boards, rewards, terminated, truncated, infos = envs.step(policy(infos["action_mask"]))
    """

    def __init__(
        self,
        num_envs: int,
        game_id: str,
        *,
        opponent: str | Opponent | None = "random",
        seat: int = 0,
        illegal: str = "forfeit",
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        render_mode: str | None = None,
        **params: Any,  # noqa: ANN401 - each game has its own
    ) -> None:
        """Seat the agents; all arguments but the first and `autoreset_mode` are those of `GameEnv`.

        Args:
            num_envs: Number of games.
            game_id: Built in, registered or installed.
            opponent: Plays all other seats; "self" or None lets the agent play every seat.
            seat: The agent's, if there is an opponent.
            illegal: `forfeit`, `retry(k)`, `noop` or `random_legal`.
            autoreset_mode: Gymnasium's, or its value: `NextStep`, `SameStep` or `Disabled`.
            render_mode: `ansi`, `rgb_array` or None.
            **params: Keyword arguments of the game's class.
        """
        num_envs = whole_number(num_envs, "num_envs", least=1)
        check_render_mode(render_mode)
        self._table = Table.lay(game_id, params)
        self._mode = as_autoreset_mode(autoreset_mode)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": [*RENDER_MODES],
            "render_fps": 2,
            "autoreset_mode": self._mode,
        }
        self.single_observation_space = self._table.board
        self.single_action_space = Discrete(self._table.game.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._lanes = _make_lanes(
            self._table, num_envs, opponent=opponent, seat=seat, illegal=illegal
        )
        self._keys: list[EpisodeKey | None] = [None] * num_envs
        self._begun = np.zeros(num_envs, np.bool_)
        self._over = np.zeros(num_envs, np.bool_)

    def reset(
        self,
        *,
        seed: SupportsIndex | Sequence[SupportsIndex | None] | NDArray[np.integer] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Begin the next episode of every environment, or of those in `options["reset_mask"]`.

        Args:
            seed: Environment i is given seed + i, or its own of a list; None continues its series.
            options: `reset_mask`, bool [num_envs], at least one True.
        """
        check_options(options, ("reset_mask",))
        slots = self._slots((options or {}).get("reset_mask"))
        first, seeds = as_seeds(seed, self.num_envs)
        super().reset(seed=first)
        self._begin(slots, self._fresh() if seeds is None else seeds)
        return self._lanes.boards.copy(), self._lanes.infos(slots)

    def step(self, actions: object) -> Steps:
        """Make a move in every environment, an integer each; see the class."""
        over, lanes = self._over, self._lanes
        running = np.flatnonzero(~over)
        chosen = self._checked(actions, running)
        if self._mode is AutoresetMode.DISABLED and over.any():
            ended = np.flatnonzero(over).tolist()
            raise ValueError(f"environments {ended} are over: reset them with a reset_mask")
        lanes.act(running, chosen[running])
        if over.any():
            self._begin(np.flatnonzero(over))
        rewards = lanes.rewards.copy()
        terminated, truncated = lanes.terminated.copy(), lanes.truncated.copy()
        infos: dict[str, Any] = {}
        self._over = terminated | truncated
        if self._mode is AutoresetMode.SAME_STEP and self._over.any():
            infos = self._close(terminated | truncated)
        infos |= lanes.infos(np.arange(self.num_envs))
        return lanes.boards.copy(), rewards, terminated, truncated, infos

    def render(self) -> tuple[str | NDArray[np.uint8], ...]:
        """Draw what every agent sees."""
        lanes, game = self._lanes, self._table.game
        return tuple(
            render(self.render_mode, game, lanes.state(slot), int(lanes.seats[slot]))
            for slot in range(self.num_envs)
        )

    def record(self, index: int) -> GameRecord:
        """Return what replays the episode of an environment to its present state."""
        return self._lanes.record(whole_number(index, "index", least=0, most=self.num_envs - 1))

    def _begin(self, slots: NDArray[np.intp], seeds: Sequence[int | None] | None = None) -> None:
        keys = [
            next_key(self._keys[slot], None if seeds is None else seeds[slot])
            for slot in slots.tolist()
        ]
        for slot, key in zip(slots.tolist(), keys, strict=True):
            self._keys[slot] = key
        self._lanes.begin(slots, keys)
        self._begun[slots], self._over[slots] = True, False

    def _close(self, over: NDArray[np.bool_]) -> dict[str, Any]:
        slots = np.flatnonzero(over)
        boards = np.full(self.num_envs, None, np.object_)
        for slot, board in zip(slots.tolist(), self._lanes.boards[slots], strict=True):
            boards[slot] = board
        infos = self._lanes.infos(slots)
        self._begin(slots)
        return {
            "final_obs": boards,
            "_final_obs": over.copy(),
            "final_info": infos,
            "_final_info": over.copy(),
        }

    def _slots(self, mask: object) -> NDArray[np.intp]:
        if mask is None:
            return np.arange(self.num_envs)
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            raise ValueError(f"reset_mask must be an array of bool, got {mask!r}")
        if mask.shape != (self.num_envs,) or not mask.any():
            raise ValueError(
                f"reset_mask must have shape ({self.num_envs},) and a True in it, got {mask!r}"
            )
        return np.flatnonzero(mask)

    def _fresh(self) -> list[int | None]:
        fresh = self.np_random_seed or 0
        return [fresh + index if key is None else None for index, key in enumerate(self._keys)]

    def _checked(self, actions: object, running: NDArray[np.intp]) -> NDArray[np.int64]:
        if not self._begun.all():
            raise ValueError(f"environment {int(self._begun.argmin())} was never reset")
        chosen = np.asarray(actions)
        if chosen.shape != (self.num_envs,) or chosen.dtype.kind not in "iu":
            raise ValueError(f"actions must be {self.num_envs} integers, got {actions!r}")
        limit = self._table.game.num_actions
        wrong = running[(chosen[running] < 0) | (chosen[running] >= limit)]
        if len(wrong):
            raise ValueError(
                f"an action must be in 0..{limit - 1}, got {chosen[wrong[0]]} "
                f"for environment {wrong[0]}"
            )
        return chosen.astype(np.int64)


def as_autoreset_mode(mode: object) -> AutoresetMode:
    """Return a mode of Gymnasium's, from itself or its value.

    Raises:
        ValueError: If there is no such mode; the message names them.
    """
    modes = {valid.value: valid for valid in AutoresetMode}
    value = mode.value if isinstance(mode, AutoresetMode) else mode
    if str(value) not in modes:
        raise ValueError(suggest(str(value), modes, what="autoreset mode"))
    return modes[str(value)]


def as_seeds(seed: object, num_envs: int) -> tuple[int | None, list[int | None] | None]:
    """Return the seed of the vector environment itself and those of its environments.

    Raises:
        ValueError: If it is no seed, and no list of one per environment, None among them.
    """
    is_list = isinstance(seed, Sequence) and not isinstance(seed, str)
    if is_list or (isinstance(seed, np.ndarray) and seed.ndim):
        seeds = [as_seed(one) for one in cast("Sequence[object]", seed)]
        if len(seeds) != num_envs:
            raise ValueError(f"one seed per environment: got {len(seeds)} for {num_envs}")
        return None, seeds
    first = as_seed(seed)
    return first, None if first is None else [first + index for index in range(num_envs)]


def _make_lanes(
    table: Table, num_envs: int, *, opponent: str | Opponent | None, seat: int, illegal: str
) -> Lanes:
    player, seat = as_opponent(opponent), check_seat(table.game, seat)
    is_simple = illegal == "forfeit" and (player is None or isinstance(player, RandomOpponent))
    if is_simple and kernel_name(table.game) is not None:
        batch = make_batch(table.game_id, batch_size=num_envs, seed=0, **table.params)
        if not isinstance(batch, GameBatch):  # it is one where the compiler is not installed
            return KernelLanes(table, batch, seat=seat, has_opponent=player is not None)
    return AgentLanes(table, num_envs, opponent=player, seat=seat, illegal=illegal)
