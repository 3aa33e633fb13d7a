from collections import Counter

import pytest
from earl_trainer.asynchronous.shares import WorkerShares


def grant(shares, playing, num_groups):
    for _ in range(num_groups):
        playing[shares.choose(playing)] += 1
    return playing


def test_the_cores_stand_for_the_speed_until_it_is_measured():
    assert grant(WorkerShares([1, 2]), {0: 0, 1: 0}, 30) == {0: 10, 1: 20}


@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_groups_go_out_in_proportion_to_measured_speed(factor):
    shares = WorkerShares([1, 1])
    shares.add(0, num_groups=10, busy_s=10.0 * factor)
    assert grant(shares, {0: 0, 1: 0}, 10) == {0: 5, 1: 5}
    shares.add(1, num_groups=10, busy_s=10.0)
    assert grant(shares, {0: 0, 1: 0}, 40) == {0: 40 / (1 + factor), 1: 40 * factor / (1 + factor)}


def test_who_has_much_to_do_gets_nothing_until_the_others_have_caught_up():
    shares = WorkerShares([1, 1, 1])
    assert grant(shares, {0: 9, 1: 0, 2: 3}, 9) == {0: 9, 1: 6, 2: 6}


def test_all_workers_of_a_simulated_pool_end_a_load_at_about_one_time():
    # Worker 1 takes a third of the time for a group, whatever its cores.
    shares, took_s = WorkerShares([1, 1, 1]), (3.0, 1.0, 3.0)
    for _ in range(20):
        load = Counter(grant(shares, {0: 0, 1: 0, 2: 0}, 50))
        for worker, num_groups in load.items():
            shares.add(worker, num_groups=num_groups, busy_s=num_groups * took_s[worker])
    ends_s = [load[worker] * took_s[worker] for worker in range(3)]
    assert max(ends_s) - min(ends_s) <= 3.0
