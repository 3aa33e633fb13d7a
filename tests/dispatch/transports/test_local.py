import pytest
import torch
from earl_dispatch import Columns, Layout, RowSizes, execute_local, plan_transfer
from earl_dispatch.testing import assert_same_bits, random_columns
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def layout_fields(draw, num_rows: int) -> dict[str, tuple]:
    ranks = draw(st.permutations(range(draw(st.integers(1, 5)))))
    num_replicas = draw(st.sampled_from([n for n in (1, 2, 3) if len(ranks) % n == 0]))
    groups = tuple(
        tuple(ranks[first : first + num_replicas]) for first in range(0, len(ranks), num_replicas)
    )
    owner = st.integers(0, len(groups) - 1)
    owners = draw(st.lists(owner, min_size=num_rows, max_size=num_rows))
    return {"owners": tuple(owners), "groups": groups}


@settings(deadline=None, max_examples=50)
@given(data=st.data(), lengths=st.lists(st.integers(0, 4), max_size=8))
def test_every_rank_gets_its_rows_in_order_whatever_the_layouts(data, lengths):
    source, target = (Layout(**data.draw(layout_fields(len(lengths)))) for _ in range(2))
    batch = random_columns(lengths, torch.Generator().manual_seed(data.draw(st.integers(0, 99))))
    plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch))

    held = [batch.select(source.rows_of(rank)) for rank in range(plan.num_ranks)]
    for rank, received in enumerate(execute_local(plan, held)):
        assert_same_bits(received, batch.select(target.rows_of(rank)))


def test_columns_for_another_number_of_ranks_are_refused():
    layout = Layout.contiguous(num_rows=0, num_ranks=2)
    nothing = Columns(lengths=torch.zeros(0, dtype=torch.int64), per_token={})
    plan = plan_transfer(layout, layout, sizes=RowSizes.of(nothing.schema(), []))
    with pytest.raises(ValueError, match="the plan has 2 ranks, got columns of 1"):
        execute_local(plan, [nothing])
