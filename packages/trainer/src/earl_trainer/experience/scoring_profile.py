"""How fast ranks score samples at each degree: measured, kept in a file, and gone by."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import torch
from earl_dispatch import Columns
from earl_selector import (
    ProfiledThroughput,
    ProfileGrid,
    ProfilePoint,
    ProfileSubject,
    ProfileTable,
    ScoringMemory,
    ScoringThroughput,
    SelectorPolicy,
)

from earl_trainer.experience.rank_prepare import ScoringRanks
from earl_trainer.profiling.store import read_table
from earl_trainer.rollout.switch import Switch


def measure_scoring(
    ranks: ScoringRanks,
    policy: SelectorPolicy,
    subject: ProfileSubject,
    *,
    role: str,
    context_tokens: Sequence[int],
    max_tokens: int,
    clock: Callable[[], float] = time.perf_counter,
) -> ProfileTable:
    """Time how fast the ranks score at each usable degree, and how long changes between them take.

    Args:
        ranks: With the model's weights.
        policy: Names the degrees.
        subject: What is measured.
        role: Of the model.
        context_tokens: Lengths, ascending; each is measured with as many rows as one pass holds.
        max_tokens: Of one forward pass.
        clock: In seconds.
    """
    num_rows = max(1, min(max_tokens, 2048) // context_tokens[-1])
    grid = ProfileGrid(
        degrees=policy.usable_degrees,
        num_responses=(num_rows,),
        context_tokens=tuple(context_tokens),
    )
    table = ProfileTable(subject=subject, grid=grid)
    switches: list[Switch | None] = []
    for tp, rows, length in grid:
        switches.append(ranks.resize(tp))
        if ranks.tp != tp:
            continue
        num_engines = policy.fleet.num_sharing(tp)
        columns = _make_columns(num_engines * rows, length)
        most_tokens = min(max_tokens, policy.memory.capacity_tokens(tp))
        # Once to warm up, and once for the clock.
        ranks.score(role, columns, temperature=1.0, max_tokens=most_tokens)
        start_s = clock()
        ranks.score(role, columns, temperature=1.0, max_tokens=most_tokens)
        rate = columns.num_tokens / (clock() - start_s)
        table = table.add(
            ProfilePoint(
                tp=tp,
                num_responses=rows,
                context_tokens=length,
                tokens_per_s_per_device=rate / (num_engines * tp),
            )
        )
    # The way back as well, which moves what the way up did not have to.
    switches.append(ranks.resize(grid.degrees[0]))
    times_s = [switch.switch_s for switch in switches if switch is not None and switch.done]
    return replace(table, switch_s=fmean(times_s) if times_s else None)


def find_table(
    path: Path,
    subject: ProfileSubject,
    degrees: tuple[int, ...],
    measure: Callable[[], ProfileTable],
) -> ProfileTable:
    """Return the table in a file if it is of this subject and these degrees, else a new one.

    A new one is kept in the file.
    """
    with suppress(ValueError):
        table = read_table(path, subject)
        if table.grid.degrees == degrees:
            return table
    table = measure()
    table.save(path)
    return table


def with_table(policy: SelectorPolicy, table: ProfileTable) -> SelectorPolicy:
    """Return the policy that goes by a table."""
    assert isinstance(policy.memory, ScoringMemory), "ranks that score have one"
    prior = ScoringThroughput(memory=policy.memory)
    return replace(
        policy,
        throughput=ProfiledThroughput(table=table, prior=prior),
        switch_s=table.switch_s or 0.0,
    )


def _make_columns(num_rows: int, length: int) -> Columns:
    num_tokens = num_rows * length
    return Columns(
        lengths=torch.full((num_rows,), length),
        per_token={
            "token_ids": torch.zeros(num_tokens, dtype=torch.int32),
            "mask": torch.ones(num_tokens, dtype=torch.bool),
        },
        per_row={},
    )
