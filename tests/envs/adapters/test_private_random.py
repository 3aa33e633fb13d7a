"""Foreign code draws from its own chance and leaves the process's alone."""

import copy
import random

import numpy as np
import pytest
from earl_envs.adapters.private_random import PrivateRandom


def draws(private, count):
    with private.installed():
        return [(random.random(), float(np.random.random())) for _ in range(count)]  # noqa: NPY002


def process_draws():
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    return python, numpy[1].tolist(), numpy[2]


def test_a_seed_gives_one_stream_in_however_many_parts():
    whole = draws(PrivateRandom(5), 4)
    parts = PrivateRandom(5)
    assert draws(parts, 1) + draws(parts, 3) == whole
    assert draws(PrivateRandom(6), 4) != whole
    assert len({value for pair in whole for value in pair}) == 8


def test_the_process_notices_nothing_even_of_seeding_and_errors():
    before = process_draws()
    private = PrivateRandom(5)

    def fail():
        with private.installed():
            random.seed(1)
            np.random.seed(1)  # noqa: NPY002, TID251
            random.random()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert process_draws() == before


def test_a_copy_has_the_same_future():
    private = PrivateRandom(2**40)
    draws(private, 2)
    assert draws(copy.deepcopy(private), 3) == draws(private, 3)


def test_two_streams_do_not_mix():
    alone = draws(PrivateRandom(1), 2)
    one, other = PrivateRandom(1), PrivateRandom(2)
    mixed = draws(one, 1)
    draws(other, 5)
    assert mixed + draws(one, 1) == alone
