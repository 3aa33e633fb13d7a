"""Layouts and batches for the tests of the dispatcher."""

import random

import pytest
import torch
from earl_dispatch import Hosts, Layout, RowSizes
from earl_dispatch.testing import random_columns


@pytest.fixture
def weigh():
    """Make the sizes of rows that weigh so many bytes each."""

    def make(row_bytes):
        return RowSizes(
            lengths=tuple(row_bytes),
            turns=(0,) * len(row_bytes),
            token_bytes=1,
            num_bit_columns=0,
            turn_bytes=0,
            value_bytes=0,
        )

    return make


@pytest.fixture
def sizes_of():
    """Make the sizes of all rows of a batch."""

    return RowSizes.of_columns


@pytest.fixture
def random_problem():
    """Make a batch, two layouts with replicas and chunks, and hosts, all drawn from a seed."""

    def layout(rng, num_rows):
        num_chunks, num_replicas = rng.choice([1, 1, 2, 3]), rng.choice([1, 1, 2])
        num_groups, size = rng.randint(1, 3), num_chunks * num_replicas
        ranks = list(range(size * num_groups + rng.randint(0, 2)))
        rng.shuffle(ranks)
        groups = tuple(tuple(ranks[g * size : (g + 1) * size]) for g in range(num_groups))
        owners = tuple(rng.randrange(num_groups) for _ in range(num_rows))
        return Layout(owners=owners, groups=groups, num_chunks=num_chunks)

    def make(seed):
        rng = random.Random(seed)
        lengths = [rng.randint(0, 9) for _ in range(rng.randint(0, 8))]
        batch = random_columns(lengths, torch.Generator().manual_seed(seed))
        source, target = layout(rng, len(lengths)), layout(rng, len(lengths))
        num_ranks = max(source.num_ranks, target.num_ranks)
        hosts = Hosts(of=tuple(rng.randrange(3) for _ in range(num_ranks)))
        return batch, source, target, hosts

    return make
