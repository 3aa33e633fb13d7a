import torch
from earl_dispatch import RowSizes, execute_local, plan_transfer
from earl_dispatch.execution import Execution
from earl_dispatch.testing import assert_same_bits, chunk_of_columns, random_problem
from earl_dispatch.wire import move
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_every_rank_gets_its_chunks_in_order_whatever_the_layouts(seed):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
    held = [chunk_of_columns(batch, source, rank) for rank in range(plan.num_ranks)]
    for rank, received in enumerate(execute_local(plan, held)):
        assert_same_bits(received, chunk_of_columns(batch, target, rank))
    for rank, columns in enumerate(held):
        assert_same_bits(columns, chunk_of_columns(batch, source, rank))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_buffers_are_as_large_as_the_plan_says(seed):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
    ranks = [
        Execution(plan, chunk_of_columns(batch, source, rank), rank=rank)
        for rank in range(plan.num_ranks)
    ]
    for number in range(len(plan.rounds)):
        sent = [rank.outgoing(number) for rank in ranks]
        for target_rank, execution in enumerate(ranks):
            arriving = {r: out[target_rank] for r, out in enumerate(sent) if target_rank in out}
            sizes = {rank: len(buffer) for rank, buffer in arriving.items()}
            assert execution.incoming_bytes(number) == sizes
            execution.accept(number, arriving)


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_rows_may_be_delivered_straight_to_where_the_receivers_hold_them(seed):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
    ranks = [
        Execution(plan, chunk_of_columns(batch, source, rank), rank=rank)
        for rank in range(plan.num_ranks)
    ]
    for rank, execution in enumerate(ranks):
        memory = [torch.empty(size, dtype=dtype) for dtype, size in execution.needed_sizes(rank)]
        for other in ranks:
            assert other.needed_sizes(rank) == execution.needed_sizes(rank)
            other.place(rank, memory)
    for number in range(len(plan.rounds)):
        for execution in ranks:
            execution.deliver(number)
    for rank, execution in enumerate(ranks):
        assert_same_bits(execution.result(), chunk_of_columns(batch, target, rank))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_rows_may_be_taken_from_where_the_senders_have_them(seed):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
    held = [chunk_of_columns(batch, source, rank) for rank in range(plan.num_ranks)]
    ranks = [Execution(plan, columns, rank=rank) for rank, columns in enumerate(held)]
    results = [execution.result() for execution in ranks]
    for number in range(len(plan.rounds)):
        for rank, execution in enumerate(ranks):
            for arrival in execution.arrivals(number):
                having = (results if arrival.passed_on else held)[arrival.sender]
                move(having, arrival.there, results[rank], arrival.here)
    for rank, received in enumerate(results):
        assert_same_bits(received, chunk_of_columns(batch, target, rank))
