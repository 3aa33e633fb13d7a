from earl_dispatch import Hosts, Layout, RowSizes
from earl_dispatch.bounds import irreplaceable_bytes, missing_bytes


def test_what_a_host_lacks_enters_it_once_however_many_ranks_need_it(weigh):
    source = Layout(owners=(0, 1), groups=((0,), (2,)))
    target = Layout(owners=(0, 0), groups=((1, 2, 3),))
    hosts = Hosts.equal(num_ranks=4, ranks_per_host=2)
    # Row 0 is on host 0 and row 1 on host 1; all rows are needed on both.
    assert missing_bytes(source, target, weigh([10, 7]), hosts) == {0: 7, 1: 10}
    apart = missing_bytes(source, target, weigh([10, 7]), Hosts.apart(4))
    assert apart == {1: 17, 2: 10, 3: 17}


def test_of_a_chunk_only_the_part_that_is_not_held_is_missing(weigh):
    source = Layout.contiguous(num_rows=1, num_ranks=2, num_chunks=2)
    target = Layout.contiguous(num_rows=1, num_ranks=3, num_chunks=3)
    # Tokens 0-5 and 6-11 are held, 0-3, 4-7 and 8-11 are needed.
    assert missing_bytes(source, target, weigh([12]), Hosts.apart(3)) == {0: 0, 1: 2, 2: 4}


def test_what_a_host_alone_holds_leaves_it_once_however_many_hosts_need_it():
    source = Layout(owners=(0, 1), groups=((0,), (1, 2)))
    target = Layout(owners=(0, 0), groups=((0, 1, 2, 3),), num_chunks=2)
    sizes = RowSizes(
        lengths=(12, 12), turns=(1, 0), token_bytes=1, num_bit_columns=1, turn_bytes=10,
        value_bytes=100,
    )  # fmt: skip
    # Host 1 needs both halves of row 0, host 2 only the second; two hosts hold row 1.
    hosts = Hosts(of=(0, 1, 2, 1))
    assert irreplaceable_bytes(source, target, sizes, hosts) == {0: 12 + 2 + 10 + 100}
    # With ranks 0 and 2 on one host that has the first half.
    assert irreplaceable_bytes(source, target, sizes, Hosts(of=(0, 0, 0, 1))) == {
        0: 2 * (6 + 1 + 100) + 10
    }
