"""From the workers that prepared samples to the workers that learn from them, by a plan."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from earl_dispatch import Columns, Hosts, Layout, RowSizes, TransferPlan, dispatch, plan_transfer
from earl_dispatch.network import Network, floor_time_s
from earl_dispatch.placement import place_rows
from earl_dispatch.probe import measure_network
from earl_dispatch.shared_sizes import share_sizes
from jaxtyping import Int64
from torch import Tensor

from earl_trainer.experience.minibatches import places_among, shuffle_minibatches
from earl_trainer.workers.group import among_workers
from earl_trainer.workers.team import Team


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What a worker learns from in a step, and what it took to bring it there."""

    batch: Columns
    """Rows of this worker."""
    minibatches: Sequence[Int64[Tensor, "_"]]
    """For each update the rows of `batch` that this worker adds to it, maybe none."""
    plan: TransferPlan
    bytes_minimum: float
    """Bytes that any plan moves which gives every learner its share of each mini-batch."""
    transfer_s: float
    """Time until this worker had its rows."""
    floor_s: float
    """Time that no scheme goes below on links as fast as they were measured; 0 without any."""


@final
class LearnerFeed:
    """Plans and executes the transfer of every step's samples.

    Preparation leaves rows where they were rolled out. Every mini-batch of the first pass is spread
    over the learner's workers so that they get about equally many bytes of it, and so that as few
    as that allows have to move: a worker keeps what it has up to its share. One worker alone keeps
    everything.

    Args:
        team: The workers; connected.
        transport: A name of `earl_dispatch.TRANSPORTS`.
        num_minibatches: Updates in a pass.
        num_epochs: Passes.
        timeout_s: Longest time to wait for the others in each exchange.
        max_buffer_bytes: Most bytes that a worker sends, and receives, at a time; None for no
            limit.
    """

    def __init__(
        self,
        team: Team,
        *,
        transport: str,
        num_minibatches: int,
        num_epochs: int,
        timeout_s: float,
        max_buffer_bytes: int | None = None,
    ) -> None:
        self._team = team
        self._transport = transport
        self._max_buffer_bytes = max_buffer_bytes
        self._num_minibatches = num_minibatches
        self._num_epochs = num_epochs
        self._timeout_s = timeout_s
        self._network: Network | None = None
        if team.size > 1:
            with among_workers():
                self._network = measure_network(transport=transport, timeout_s=timeout_s)

    def send(self, columns: Columns, *, seed: int) -> Delivery:
        """Bring the rows of all workers to those that learn from them.

        Args:
            columns: Rows of this worker, in the order of the step's episodes.
            seed: Shuffles the rows into mini-batches.
        """
        team = self._team
        counts = team.everyone.all_gather(columns.num_rows)[: team.num_rollout_workers]
        source = Layout(
            owners=tuple(rank for rank, count in enumerate(counts) for _ in range(count)),
            groups=tuple((rank,) for rank in range(team.num_rollout_workers)),
        )
        with among_workers():
            sizes = share_sizes(columns, source, timeout_s=self._timeout_s)
        passes = shuffle_minibatches(
            source.num_rows,
            num_minibatches=self._num_minibatches,
            num_epochs=self._num_epochs,
            seed=seed,
        )
        target, bytes_minimum = spread_minibatches(
            source, sizes, passes[0], num_workers=team.num_learner_workers, team_size=team.size
        )
        plan = plan_transfer(source, target, sizes=sizes)
        start_s = time.perf_counter()
        with among_workers():
            batch = dispatch(
                plan,
                columns,
                transport=self._transport,
                max_buffer_bytes=self._max_buffer_bytes,
                timeout_s=self._timeout_s,
            )
        transfer_s = time.perf_counter() - start_s
        own = target.rows_of(team.rank)
        return Delivery(
            batch=batch,
            minibatches=[places_among(own, rows) for shuffled in passes for rows in shuffled],
            plan=plan,
            bytes_minimum=bytes_minimum,
            transfer_s=transfer_s,
            floor_s=0.0 if self._network is None else floor_time_s(plan, self._network),
        )


def spread_minibatches(
    source: Layout,
    sizes: RowSizes,
    minibatches: Sequence[Int64[Tensor, "_"]],
    *,
    num_workers: int,
    team_size: int,
) -> tuple[Layout, float]:
    """Choose who learns from which row: each mini-batch balanced, with the fewest bytes moved.

    Args:
        source: Where the rows are.
        sizes: Of the rows.
        minibatches: Numbers of their rows, every row once.
        num_workers: Workers that learn, the first of the team.
        team_size: Workers in all.

    Returns:
        Where the rows go, and the bytes that have to move whatever the choice: the sum over
        mini-batches of what workers hold of them beyond their shares.
    """
    groups = tuple((rank,) for rank in range(num_workers))
    owners = [0] * source.num_rows
    bytes_minimum = 0.0
    for minibatch in minibatches:
        rows = sorted(minibatch.tolist())
        placement = place_rows(
            replace(source, owners=tuple(source.owners[row] for row in rows)),
            Layout(owners=(), groups=groups),
            sizes=replace(
                sizes,
                lengths=tuple(sizes.lengths[row] for row in rows),
                turns=tuple(sizes.turns[row] for row in rows),
            ),
            hosts=Hosts.apart(team_size),
        )
        bytes_minimum += placement.bytes_between_hosts_minimum
        for row, owner in zip(rows, placement.layout.owners, strict=True):
            owners[row] = owner
    return Layout(owners=tuple(owners), groups=groups), bytes_minimum
