import time

from earl_dispatch.roll_call import absent_ranks
from torch.distributed import HashStore


class Unreachable:
    def set(self, key, value):
        raise RuntimeError("connection refused")

    def check(self, keys):
        return False


class Silent(Unreachable):
    def set(self, key, value):
        time.sleep(5)


def test_ranks_that_do_not_sign_in_are_named():
    store = HashStore()
    first = absent_ranks(store, rank=1, num_ranks=4, timeout_s=0.1)
    assert first == "no answer from rank 0, 2, 3"
    assert absent_ranks(store, rank=2, num_ranks=4, timeout_s=0.1) == "no answer from rank 0, 3"


def test_when_all_have_signed_in_nobody_waits():
    store = HashStore()
    absent_ranks(store, rank=0, num_ranks=2, timeout_s=0.1)
    start_s = time.monotonic()
    text = absent_ranks(store, rank=1, num_ranks=2, timeout_s=30.0)
    assert text == "all ranks answer, so the connections between them have failed"
    assert time.monotonic() - start_s < 5.0


def test_a_store_that_is_lost_is_said_to_be():
    text = absent_ranks(Unreachable(), rank=0, num_ranks=2, timeout_s=0.1)
    assert text == (
        "the group's store is gone with the rank that serves it, rank 0 of the default group "
        "unless a launcher does (connection refused)"
    )


def test_a_store_that_never_answers_is_not_waited_for():
    start_s = time.monotonic()
    text = absent_ranks(Silent(), rank=0, num_ranks=2, timeout_s=0.1)
    assert text == "the group's store does not answer, so its host is gone"
    assert time.monotonic() - start_s < 3.0
