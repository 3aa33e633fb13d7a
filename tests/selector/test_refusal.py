"""Degrees that an engine did not take."""

import pytest
from earl_selector import Deployment, DeviceSpec, Fleet, Refusal
from earl_selector.refusal import leave_out_refused


class Shelf:
    """A hundred tokens per rank."""

    device = DeviceSpec.cpu(1000)

    def check_degree(self, tp: int) -> None:
        pass

    def capacity_tokens(self, tp: int) -> int:
        return 100 * tp

    def required_memory_bytes(self, tp: int, num_tokens: int) -> int:
        return num_tokens // tp


FLEET = Fleet(memory=Shelf(), num_devices=4, deployment=Deployment.REPLICAS)


def leave_out(*refusals, step=100, num_tokens=50, degrees=(1, 2, 4)):
    return leave_out_refused(degrees, refusals, step=step, fleet=FLEET, num_tokens=num_tokens)


@pytest.mark.parametrize(("num_times", "num_rollouts"), [(1, 2), (2, 4), (3, 8)])
def test_each_wait_is_twice_as_long_as_the_one_before(num_times, num_rollouts):
    refusal = Refusal(tp=2, step=10, num_times=num_times)
    assert not refusal.is_over(10 + num_rollouts - 1)
    assert refusal.is_over(10 + num_rollouts)


def test_a_refused_degree_is_left_out_for_good_while_another_holds_the_tokens():
    assert leave_out() == (1, 2, 4)
    assert leave_out(Refusal(tp=1, step=0)) == (2, 4)
    assert leave_out(Refusal(tp=2, step=0), num_tokens=150) == (1, 4)


def test_where_no_other_holds_the_tokens_it_is_tried_again_once_its_wait_is_over():
    refusals = Refusal(tp=2, step=99), Refusal(tp=4, step=98)
    assert leave_out(*refusals, num_tokens=150) == (1, 4)
    assert leave_out(*refusals, num_tokens=150, step=99) == (1,)
    assert leave_out(*refusals, num_tokens=150, step=101) == (1, 2, 4)


def test_one_that_does_not_hold_the_tokens_either_is_not_tried_again():
    assert leave_out(Refusal(tp=2, step=0), num_tokens=201, degrees=(1, 2)) == (1,)


def test_where_all_were_refused_all_are_left():
    refusals = [Refusal(tp=tp, step=99) for tp in (1, 2)]
    assert leave_out(*refusals, degrees=(1, 2), num_tokens=10**6) == (1, 2)
