from earl_dispatch import execute_local, plan_transfer
from earl_dispatch.execution import Execution
from earl_dispatch.testing import assert_same_bits, chunk_of_columns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_every_rank_gets_its_chunks_in_order_whatever_the_layouts(random_problem, sizes_of, seed):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=sizes_of(batch), hosts=hosts)
    held = [chunk_of_columns(batch, source, rank) for rank in range(plan.num_ranks)]
    for rank, received in enumerate(execute_local(plan, held)):
        assert_same_bits(received, chunk_of_columns(batch, target, rank))
    for rank, columns in enumerate(held):
        assert_same_bits(columns, chunk_of_columns(batch, source, rank))


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32))
def test_buffers_are_as_large_as_the_plan_says(random_problem, sizes_of, seed):
    batch, source, target, hosts = random_problem(seed)
    plan = plan_transfer(source, target, sizes=sizes_of(batch), hosts=hosts)
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
