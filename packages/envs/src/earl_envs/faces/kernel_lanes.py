"""Many games of one kind on compiled rules, each against an opponent that moves at random."""

from collections.abc import Hashable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from earl_envs.batch_base import Batch
from earl_envs.end_reason import EndReason
from earl_envs.faces.episode import EpisodeKey, Table, not_legal
from earl_envs.kernels.bits import signed, split_mix
from earl_envs.record import GameRecord

_NOT_BEGUN = EpisodeKey(seed=0, episode=0)


@final
class KernelLanes:
    """The same lanes as `AgentLanes`, faster, where all of this holds; see `Lanes`.

    The game has two seats and a kernel: then its start is always the same, its planes are the
    stones of one seat and of the other, and its rules never raise. The opponent is the random one
    or none. An illegal action forfeits.
    """

    def __init__(self, table: Table, batch: Batch, *, seat: int, has_opponent: bool) -> None:
        num_lanes = batch.batch_size
        self._table = table
        self._batch = batch
        self._seat = seat
        self._has_opponent = has_opponent
        self._keys = [_NOT_BEGUN] * num_lanes
        self._seeds = np.zeros(num_lanes, np.int64)  # lower 64 bits of what the opponent draws by
        self._episodes = np.zeros(num_lanes, np.int64)
        self._movers = np.full(num_lanes, seat, np.int64)
        self._refused = np.full(num_lanes, -1, np.int64)  # the action that forfeited each game
        self.boards = np.zeros((num_lanes, *table.board.shape), np.uint8)
        self.seats = np.full(num_lanes, seat, np.int64)
        self.rewards = np.zeros(num_lanes, np.float64)
        self.terminated = np.zeros(num_lanes, np.bool_)
        self.truncated = np.zeros(num_lanes, np.bool_)

    def begin(self, slots: NDArray[np.intp], keys: Sequence[EpisodeKey]) -> None:
        """Start the episodes that the keys name, one per slot."""
        for slot, key in zip(slots.tolist(), keys, strict=True):
            self._keys[slot] = key
        draw_seeds = [key.draw_seed(self._table.game_id, 1 - self._seat) for key in keys]
        self._seeds[slots] = [signed(seed % 2**64) for seed in draw_seeds]
        self._episodes[slots] = [key.episode for key in keys]
        self._batch.restart(slots)
        self._refused[slots] = -1
        self._let_others_play(slots)
        self._show(slots)

    def act(self, slots: NDArray[np.intp], actions: NDArray[np.int64]) -> None:
        """Make the agents' moves, one per slot, and let the others answer."""
        batch = self._batch
        self._movers[slots] = batch.seats[slots]
        legal = batch.legal_mask[slots, actions]
        self._refused[slots] = np.where(legal, -1, actions)
        playing = slots[legal]
        if len(playing):
            batch.step(actions[legal], playing)
            self._let_others_play(playing)
        self._show(slots)

    def infos(self, slots: NDArray[np.intp]) -> dict[str, Any]:
        """Return the infos of some games, as Gymnasium batches them, in new arrays."""
        chosen = np.zeros(len(self._keys), np.bool_)
        chosen[slots] = True
        ended = chosen & self.terminated
        refused = chosen & (self._refused >= 0)
        mask = self._batch.legal_mask & ~(self._refused >= 0)[:, None]
        infos = _columns(chosen, action_mask=mask.astype(np.int8), seat=self.seats)
        if refused.any():
            infos |= _columns(refused, illegal_action=self._refused, detail=self._details(refused))
        if ended.any():
            returns = self._returns()
            first, second = returns.T
            infos |= _columns(
                ended,
                returns=returns,
                winner=np.where(first == second, -1, first < second).astype(np.int64),
                end_reason=self._end_reasons(),
            )
        return infos

    def state(self, slot: int) -> Hashable:
        """Return the state of a game."""
        return self._batch.state(slot)

    def record(self, slot: int) -> GameRecord:
        """Return what replays a game to its present state."""
        table = self._table
        return GameRecord(
            game_id=table.game_id,
            params=table.params,
            seed=self._keys[slot].game_seed,
            moves=self._batch.moves(slot),
        )

    def _let_others_play(self, slots: NDArray[np.intp]) -> None:
        batch, waiting = self._batch, slots
        while self._has_opponent:
            seats = batch.seats[waiting]
            waiting = waiting[(seats >= 0) & (seats != self._seat)]
            if not len(waiting):
                return
            batch.step(self._draw(waiting), waiting)

    def _draw(self, slots: NDArray[np.intp]) -> NDArray[np.int64]:
        # Those of `EpisodeKey.draw`, for many games at once.
        mask = self._batch.legal_mask[slots]
        num_legal = mask.cumsum(axis=1)
        output = (self._episodes[slots] << 32) + self._batch.num_moves[slots] + 1
        places = split_mix(self._seeds[slots], output) * num_legal[:, -1] >> 31
        return (num_legal > places[:, None]).argmax(axis=1)

    def _show(self, slots: NDArray[np.intp]) -> None:
        batch = self._batch
        over = batch.done[slots]
        movers = self._movers[slots]
        self.boards[slots] = batch.observations[slots]
        # The batch shows a finished game as seat 0 sees it; here its agent looks.
        turned = slots[over & (movers == 1)]
        self.boards[turned] = self.boards[turned, ::-1]
        if not self._has_opponent:
            self.seats[slots] = np.where(over, movers, batch.seats[slots])
        self.terminated[slots] = over | (self._refused[slots] >= 0)
        self.rewards[slots] = self._returns()[slots, movers]

    def _returns(self) -> NDArray[np.float64]:
        returns = self._batch.returns.astype(np.float64)
        for slot in np.flatnonzero(self._refused >= 0).tolist():
            returns[slot] = self._table.game.forfeit(int(self._movers[slot]))
        return returns

    def _end_reasons(self) -> NDArray[np.object_]:
        reasons = np.full(len(self._keys), None, np.object_)
        reasons[self.terminated] = EndReason.FINISHED
        reasons[self._refused >= 0] = EndReason.ILLEGAL_MOVE
        return reasons

    def _details(self, refused: NDArray[np.bool_]) -> NDArray[np.object_]:
        details = np.full(len(self._keys), None, np.object_)
        for slot in np.flatnonzero(refused).tolist():
            details[slot] = not_legal(int(self._refused[slot]), self._batch.legal(slot))
        return details


def _columns(present: NDArray[np.bool_], **values: NDArray[Any]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name, column in values.items():
        absent = None if column.dtype == np.object_ else 0
        shape = (-1, *(1,) * (column.ndim - 1))
        columns[name] = np.where(present.reshape(shape), column, np.array(absent, column.dtype))
        columns[f"_{name}"] = present.copy()
    return columns
