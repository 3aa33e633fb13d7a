import pytest
from earl_dispatch import Hosts


def test_consecutive_ranks_share_hosts_of_equal_size():
    hosts = Hosts.equal(num_ranks=5, ranks_per_host=2)
    assert hosts.of == (0, 0, 1, 1, 2)
    assert hosts.num_hosts == 3
    assert hosts.hosts_of([0, 3, 2]) == {0, 1}


def test_ranks_apart_have_a_host_each():
    assert Hosts.apart(3).of == (0, 1, 2)


@pytest.mark.parametrize("of", [(), (0, -1)])
def test_ranks_without_a_host_are_refused(of):
    with pytest.raises(ValueError, match="every rank needs a host numbered from 0"):
        Hosts(of=of)


def test_hosts_of_nothing_are_refused():
    with pytest.raises(ValueError, match="must be >= 1, got 2 and 0"):
        Hosts.equal(num_ranks=2, ranks_per_host=0)
