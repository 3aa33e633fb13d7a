import pytest
from earl_dispatch.transports import TRANSPORTS, find_transport


def test_a_transport_is_found_by_its_name():
    assert find_transport("all_to_all") is TRANSPORTS["all_to_all"]


def test_an_unknown_transport_is_refused_with_the_nearest_names():
    with pytest.raises(ValueError, match=r"'all2all', did you mean 'all_to_all'$"):
        find_transport("all2all")
    with pytest.raises(
        ValueError, match="'all_to_all' or 'gather_scatter' or 'local' or 'pipelined' or"
    ):
        find_transport("xyz")
