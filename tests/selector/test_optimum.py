from itertools import pairwise, product
from math import inf

import pytest
from earl_selector import find_optimum
from hypothesis import given
from hypothesis import strategies as st

DEGREES = (1, 2, 4)
tables = st.lists(
    st.lists(st.integers(1, 20).map(float) | st.just(inf), min_size=3, max_size=3).filter(
        lambda row: min(row) < inf
    ),
    min_size=1,
    max_size=6,
)


def price(table, path, switch_s):
    running = sum(row[place] for row, place in zip(table, path, strict=True))
    return running + switch_s * sum(a != b for a, b in pairwise(path))


@given(tables, st.integers(0, 15))
def test_no_schedule_is_faster(table, switch_s):
    optimum = find_optimum(table, DEGREES, switch_s=switch_s)
    cheapest = min(price(table, path, switch_s) for path in product(range(3), repeat=len(table)))
    assert optimum.total_s == cheapest
    path = [DEGREES.index(tp) for tp in optimum.degrees]
    assert price(table, path, switch_s) == cheapest
    assert optimum.num_switches == sum(a != b for a, b in pairwise(path))


def test_a_switch_is_made_only_where_it_pays():
    table = [[1.0, 5.0], [5.0, 1.0], [5.0, 1.0]]
    assert find_optimum(table, (1, 2), switch_s=3.0).degrees == (1, 2, 2)
    assert find_optimum(table, (1, 2), switch_s=5.0).degrees == (2, 2, 2)


def test_trace_that_cannot_be_run_is_refused():
    with pytest.raises(ValueError, match=r"no degree of \(1, 2\) can run step 1"):
        find_optimum([[1.0, 2.0], [inf, inf]], (1, 2), switch_s=1.0)
    with pytest.raises(ValueError, match="at least one step, got none"):
        find_optimum([], (1, 2), switch_s=1.0)
