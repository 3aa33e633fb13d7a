from earl_dispatch import Hosts, Layout, Network, describe_plan, plan_transfer


def test_a_plan_is_described_by_its_bytes_messages_links_and_times(weigh):
    source = Layout(owners=(0, 0), groups=((0,),))
    target = Layout(owners=(0, 0), groups=((2, 3, 1),))
    hosts = Hosts.equal(num_ranks=4, ranks_per_host=2)
    plan = plan_transfer(source, target, sizes=weigh([5, 7]), hosts=hosts)
    without_time = """\
2 rows, 4 ranks, 2 hosts
bytes_moved: 36 (bytes_lower_bound: 36)
bytes_between_hosts: 12 (bytes_between_hosts_lower_bound: 12)
messages: 3 in 2 rounds
within host 0: 12 bytes
host 0 to host 1: 12 bytes
within host 1: 12 bytes"""
    assert describe_plan(plan) == without_time
    timed = describe_plan(plan, Network(bytes_per_s=10, latency_s=0.25))
    assert timed == f"{without_time}\npredicted_time_s: 1.45 (floor_time_s: 1.2)"


def test_of_many_links_the_busiest_are_listed(weigh):
    source = Layout.contiguous(num_rows=40, num_ranks=1)
    target = Layout(owners=tuple(range(40)), groups=tuple((rank,) for rank in range(1, 41)))
    lines = describe_plan(plan_transfer(source, target, sizes=weigh(range(1, 41)))).splitlines()
    assert lines[4] == "host 0 to host 40: 40 bytes"
    assert lines[-2] == "host 0 to host 9: 9 bytes"
    assert lines[-1] == "8 more, of 8 bytes at most"


def test_a_plan_of_nothing_is_described(weigh):
    layout = Layout.contiguous(num_rows=0, num_ranks=2)
    lines = describe_plan(plan_transfer(layout, layout, sizes=weigh([])), Network(bytes_per_s=1))
    assert lines.splitlines()[0] == "0 rows, 2 ranks, 2 hosts"
    assert lines.splitlines()[-1] == "predicted_time_s: 0 (floor_time_s: 0)"
