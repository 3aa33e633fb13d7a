"""Games stepped as tensors that stay on the device where they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from earl_envs.batch_base import slot_seeds
from earl_envs.checks import flag
from earl_envs.kernels.bits import (
    ROWS_OF_THREE,
    TOP_ROW,
    Bits,
    landing,
    lines_of_four,
    lines_of_three,
    signed,
    split_mix,
)

Tensor: TypeAlias = Any
"""A tensor of the namespace that a batch was made with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    rows: int
    columns: int
    num_actions: int
    stone: Callable[[Bits, Bits], Bits]
    """(cells taken, action) -> the cell that a stone comes to."""
    lines: Callable[[Bits], Bits]
    """Stones of a seat -> not 0 when it has a line."""
    open_cells: int
    """The bits whose cells are free as long as their actions are legal."""


_RULES = {
    "earl/ConnectFour-v0": _Rules(
        rows=6, columns=7, num_actions=7, stone=landing, lines=lines_of_four, open_cells=TOP_ROW
    ),
    "earl/TicTacToe-v0": _Rules(
        rows=3,
        columns=3,
        num_actions=9,
        stone=lambda taken, action: 1 << action,
        lines=lines_of_three,
        open_cells=ROWS_OF_THREE,
    ),
}


@final
class TensorBatch:
    """N games of Tic-Tac-Toe or Connect Four in the memory of a device.

    It steps like `Batch`, with two differences that keep the host from waiting for the device: it
    takes an action for every slot and a mask of those to step, and a wrong one raises nothing, as
    that would mean to read it. A slot that is given an illegal action, or any action after the end
    of its game, stays as it is and is marked in `illegal`: ask `illegal.any()` where it matters.
    All attributes are buffers of fixed size that a step writes anew.

    Example:
        batch = TensorBatch("earl/ConnectFour-v0", batch_size=4096, seed=0, xp=torch, device="cuda")
        batch.step(batch.random_actions())

    Attributes:
        observations: As of `Batch`. [N, 2, rows, columns] uint8
        final_observations: As of `Batch`. [N, 2, rows, columns] uint8
        legal_mask: As of `Batch`. [N, num_actions] bool
        returns: As of `Batch`. [N, 2] float32
        done: As of `Batch`. [N] bool
        seats: As of `Batch`. [N] int64
        num_moves: As of `Batch`. [N] int64
        episodes: As of `Batch`. [N] int64
        illegal: The slots whose action the latest step refused. [N] bool
    """

    def __init__(
        self,
        game_id: str,
        *,
        batch_size: int,
        seed: int,
        xp: Any,  # noqa: ANN401 - a module
        device: Any = None,  # noqa: ANN401 - whatever the module takes
        autoreset: bool = False,
    ) -> None:
        """Start the games.

        Args:
            game_id: "earl/TicTacToe-v0" or "earl/ConnectFour-v0".
            batch_size: As in `make_batch`.
            seed: As in `make_batch`, with the same random actions.
            xp: The namespace of the tensors: `torch`, `numpy` or one with the same functions.
            device: Where the buffers are; by default the namespace's own choice.
            autoreset: As in `make_batch`.
        """
        if game_id not in _RULES:
            raise ValueError(f"tensor games are {', '.join(_RULES)}, got {game_id!r}")
        rules = self._rules = _RULES[game_id]
        seeds = [signed(s) for s in slot_seeds(seed, batch_size)]
        self._xp, self.batch_size = xp, batch_size
        self.autoreset = flag(autoreset, "autoreset")

        def zeros(*shape: int, dtype: Any) -> Tensor:  # noqa: ANN401 - the module's own
            return xp.zeros((batch_size, *shape), dtype=dtype, device=device)

        self.observations = zeros(2, rules.rows, rules.columns, dtype=xp.uint8)
        self.final_observations = (
            zeros(2, rules.rows, rules.columns, dtype=xp.uint8) if autoreset else self.observations
        )
        self.legal_mask = zeros(rules.num_actions, dtype=xp.bool)
        self.returns = zeros(2, dtype=xp.float32)
        self.done, self.illegal = zeros(dtype=xp.bool), zeros(dtype=xp.bool)
        self.seats, self.num_moves = zeros(dtype=xp.int64), zeros(dtype=xp.int64)
        self.episodes = zeros(dtype=xp.int64)
        # Stones of the seat to move and of the other; of a finished game, of seats 0 and 1.
        self._own, self._other = zeros(dtype=xp.int64), zeros(dtype=xp.int64)
        self._keys = xp.asarray(seeds, dtype=xp.int64, device=device)
        self._cells = xp.arange(rules.rows * rules.columns, dtype=xp.int64, device=device)
        self._actions = xp.arange(rules.num_actions, dtype=xp.int64, device=device)
        self._show()

    def step(self, actions: Tensor, active_mask: Tensor | None = None) -> None:
        """Make one move in each unfinished game, or in those of a mask; the host does not wait.

        Args:
            actions: One integer per slot; those of slots that are not stepped are not looked at.
                [N] int64
            active_mask: The slots to step; one whose game is over counts as illegal. [N] bool
        """
        xp, rules = self._xp, self._rules
        running = self.seats >= 0
        wanted = running if active_mask is None else active_mask
        named = (actions >= 0) & (actions < rules.num_actions)
        action = xp.where(named, actions, 0)
        taken = self._own | self._other
        stone = rules.stone(taken, action)
        free = (stone != 0) & (stone & taken == 0)
        moved = wanted & running & named & free
        self.illegal[...] = wanted & ~moved

        mover = self.num_moves & 1
        own = xp.where(moved, self._own | stone, self._own)
        won = moved & (rules.lines(own) != 0)
        over = won | moved & (rules.open_cells & ~(own | self._other) == 0)
        self._score(over=over, score=xp.where(won, 1 - 2 * mover, 0))
        self.num_moves += moved
        self._own[...], self._other[...] = (
            xp.where(moved, self._other, own),
            xp.where(moved, own, self._other),
        )
        self._finish(over=over)
        self._show()

    def restart(self, mask: Tensor) -> None:
        """Begin the next game of the slots of a mask. [N] bool."""
        self._begin_next(mask)
        self.done &= ~mask
        self.returns *= ~mask[:, None]
        self._show()

    def random_actions(self) -> Tensor:
        """Draw what `Batch.random_actions` does, and 0 for finished games. [N]."""
        xp, mask = self._xp, self.legal_mask
        draw = split_mix(self._keys, (self.episodes << 32) + self.num_moves + 1)
        place = draw * xp.sum(mask, 1) >> 31
        chosen = mask & (xp.cumsum(mask, 1) == place[:, None] + 1)
        return xp.sum(chosen * self._actions, 1)

    def _score(self, *, over: Tensor, score: Tensor) -> None:
        if self.autoreset:
            self.done[...] = over
            self.returns[:, 0], self.returns[:, 1] = score, -score
        else:
            # A game scores once, in the step that ends it.
            self.done |= over
            self.returns[:, 0] += score
            self.returns[:, 1] -= score

    def _finish(self, *, over: Tensor) -> None:
        xp = self._xp
        swapped = over & (self.num_moves & 1 == 1)
        own = xp.where(swapped, self._other, self._own)
        self._other[...] = xp.where(swapped, self._own, self._other)
        self._own[...] = own
        self.seats[...] = xp.where(over | (self.seats < 0), -1, self.num_moves & 1)
        if self.autoreset:
            planes = over[:, None, None, None]
            final = xp.where(planes, self._planes(), self.final_observations)
            self.final_observations[...] = final
            self._begin_next(over)

    def _begin_next(self, mask: Tensor) -> None:
        for buffer in (self._own, self._other, self.num_moves, self.seats):
            buffer *= ~mask
        self.episodes += mask

    def _planes(self) -> Tensor:
        shape = (-1, 1, self._rules.rows, self._rules.columns)
        own, other = (
            (bits[:, None] >> self._cells & 1).reshape(shape) for bits in (self._own, self._other)
        )
        return self._xp.concatenate((own, other), 1)

    def _show(self) -> None:
        free = self._rules.open_cells & ~(self._own | self._other)
        self.observations[...] = self._planes()
        self.legal_mask[...] = (free[:, None] >> self._actions & 1 == 1) & (self.seats >= 0)[
            :, None
        ]
