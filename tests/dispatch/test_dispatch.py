from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.distributed as dist
from earl_dispatch import (
    Columns,
    Hosts,
    Layout,
    RowSizes,
    TransferPlan,
    dispatch,
    execute_local,
    plan_transfer,
)
from earl_dispatch.testing import (
    assert_same_bits,
    chunk_of_columns,
    random_columns,
    random_problem,
    run_ranks,
)
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

LENGTHS = (3, 0, 5, 1, 4, 4, 0, 2, 6)
NUM_ROWS = len(LENGTHS)
FOUR = Layout.contiguous(num_rows=NUM_ROWS, num_ranks=4)
BACKWARDS = Layout(owners=FOUR.owners[::-1], groups=FOUR.groups)
BALANCED = Layout.balanced(LENGTHS, num_ranks=4)
TWO_BY_TWO = Layout.contiguous(num_rows=NUM_ROWS, num_ranks=4, replicas_per_group=2)
EVERYWHERE = Layout.contiguous(num_rows=NUM_ROWS, num_ranks=4, replicas_per_group=4)
ALONE = Layout.contiguous(num_rows=NUM_ROWS, num_ranks=1)
FIRST_TWO = Layout.contiguous(num_rows=NUM_ROWS, num_ranks=2)
LAST_TWO = Layout(owners=FIRST_TWO.owners, groups=((3,), (2,)))
CHUNKED = Layout.contiguous(num_rows=NUM_ROWS, num_ranks=4, num_chunks=4)
CHUNKED_REPLICAS = Layout(owners=(0,) * NUM_ROWS, groups=((3, 0, 2, 1),), num_chunks=2)
CROSSED_REPLICAS = Layout(owners=TWO_BY_TWO.owners, groups=((3, 1), (0, 2)))
PAIRS = (
    (FOUR, BALANCED),
    (FOUR, BACKWARDS),
    (FOUR, FOUR),
    (TWO_BY_TWO, BALANCED),
    (BALANCED, TWO_BY_TWO),
    (TWO_BY_TWO, CROSSED_REPLICAS),
    (ALONE, EVERYWHERE),
    (EVERYWHERE, ALONE),
    (FIRST_TWO, LAST_TWO),
    (ALONE, FIRST_TWO),
    (FOUR, CHUNKED),
    (CHUNKED, CHUNKED_REPLICAS),
    (CHUNKED_REPLICAS, TWO_BY_TWO),
)


SEED = 0
DISTRIBUTED = ("all_to_all", "gather_scatter", "pipelined", "shared_memory")


def make_batch() -> Columns:
    return random_columns(LENGTHS, torch.Generator().manual_seed(SEED))


def make_plan(source: Layout, target: Layout) -> TransferPlan:
    batch = make_batch()
    sizes = RowSizes.of_columns(batch)
    hosts = Hosts.equal(num_ranks=max(4, target.num_ranks), ranks_per_host=2)
    return plan_transfer(source, target, sizes=sizes, hosts=hosts)


def held_by(rank: int, layout: Layout) -> Columns:
    """Return what a rank holds, with mappings in an order of its own."""
    columns = chunk_of_columns(make_batch(), layout, rank)
    if rank % 2:
        return replace(columns, per_token=dict(reversed(list(columns.per_token.items()))))
    return columns


def dispatch_pairs(transport: str) -> list[Columns]:
    rank = dist.get_rank()
    return [
        dispatch(make_plan(source, target), held_by(rank, source), transport=transport)
        for source, target in PAIRS
    ]


def dispatch_everything() -> dict[str, list[Columns]]:
    results = {name: dispatch_pairs(name) for name in DISTRIBUTED}
    rank = dist.get_rank()
    results["small buffers"] = [
        dispatch(
            make_plan(FOUR, TWO_BY_TWO), held_by(rank, FOUR), transport=name, max_buffer_bytes=64
        )
        for name in DISTRIBUTED
    ]
    results["schema alone"] = [
        dispatch(
            make_plan(ALONE, BALANCED),
            held_by(rank, ALONE) if rank == 0 else Columns.empty(make_batch().schema()),
            transport=name,
            timeout_s=20.0,
        )
        for name in DISTRIBUTED
    ]
    empty = Layout.contiguous(num_rows=0, num_ranks=4)
    plan = plan_transfer(empty, empty, sizes=RowSizes.of(make_batch().schema(), []))
    results["no rows"] = [dispatch(plan, held_by(0, FOUR).select([]), transport="all_to_all")]
    odd = dist.new_group([1, 3])
    if isinstance(odd, dist.ProcessGroup):
        held = held_by(dist.get_rank(odd), FIRST_TWO)
        swapped = replace(FIRST_TWO, groups=FIRST_TWO.groups[::-1])
        plan = make_plan(FIRST_TWO, swapped)
        results["subgroup"] = [dispatch(plan, held, transport="all_to_all", group=odd)]
    return results


@pytest.fixture(scope="module")
def dispatched() -> list[dict[str, list[Columns]]]:
    return run_ranks(4, dispatch_everything)


@pytest.mark.parametrize("transport", DISTRIBUTED)
@pytest.mark.parametrize("pair", range(len(PAIRS)))
def test_four_ranks_get_what_local_execution_gives_bit_for_bit(dispatched, transport, pair):
    source, target = PAIRS[pair]
    expected = execute_local(
        make_plan(source, target), [held_by(rank, source) for rank in range(4)][: max_ranks(pair)]
    )
    for rank in range(4):
        actual = dispatched[rank][transport][pair]
        assert_same_bits(actual, chunk_of_columns(make_batch(), target, rank))
        if rank < len(expected):
            assert_same_bits(actual, expected[rank])


def max_ranks(pair: int) -> int:
    return make_plan(*PAIRS[pair]).num_ranks


def test_the_batch_holds_nans():
    assert any(bool(column.isnan().any()) for column in make_batch().per_token.values()), (
        "the comparison of bits is only worth something with NaNs in it"
    )


def test_small_buffers_change_nothing(dispatched):
    for rank in range(4):
        for received in dispatched[rank]["small buffers"]:
            assert_same_bits(received, chunk_of_columns(make_batch(), TWO_BY_TWO, rank))


def test_a_rank_without_rows_needs_to_know_the_schema_alone(dispatched):
    nothing = Columns.empty(make_batch().schema())
    assert nothing.turns is None
    local = execute_local(make_plan(ALONE, BALANCED), [held_by(0, ALONE), *[nothing] * 3])
    for rank in range(4):
        for received in [*dispatched[rank]["schema alone"], local[rank]]:
            assert_same_bits(received, chunk_of_columns(make_batch(), BALANCED, rank))


def test_a_batch_without_rows_is_dispatched(dispatched):
    assert [result["no rows"][0].num_rows for result in dispatched] == [0, 0, 0, 0]


def test_ranks_of_a_plan_are_ranks_of_the_group(dispatched):
    first, second = (held_by(rank, FIRST_TWO) for rank in range(2))
    assert_same_bits(dispatched[1]["subgroup"][0], second)
    assert_same_bits(dispatched[3]["subgroup"][0], first)


def dispatch_random_problems(num_ranks: int) -> int:
    """Return how many problems have the result of local execution by every transport.

    All ranks draw the same problems, as none of them keeps what it has learnt. A rank without rows
    knows no more than the schema.
    """
    rank, num_problems = dist.get_rank(), 0

    @settings(
        max_examples=60, deadline=None, derandomize=True, database=None, phases=[Phase.generate]
    )
    @given(seed=st.integers(0, 2**32))
    def check(seed: int) -> None:
        nonlocal num_problems
        batch, source, target, hosts = random_problem(seed, max_ranks=num_ranks)
        plan = plan_transfer(source, target, sizes=RowSizes.of_columns(batch), hosts=hosts)
        nothing = Columns.empty(batch.schema())
        held = [chunk_of_columns(batch, source, each) for each in range(plan.num_ranks)]
        held = [columns if columns.num_rows else nothing for columns in held]
        expected = [*execute_local(plan, held), *[nothing] * (num_ranks - plan.num_ranks)]
        held += [nothing] * (num_ranks - plan.num_ranks)
        for transport, limit in product(DISTRIBUTED, (None, 1 + 7 * seed % 300)):
            received = dispatch(
                plan, held[rank], transport=transport, max_buffer_bytes=limit, timeout_s=30.0
            )
            assert_same_bits(received, expected[rank])
        num_problems += 1

    check()
    return num_problems


@pytest.mark.slow
def test_all_transports_give_what_local_execution_gives_whatever_the_problem():
    num_ranks = 5
    solved = run_ranks(num_ranks, dispatch_random_problems, num_ranks, timeout_s=300.0)
    assert solved == [solved[0]] * num_ranks
    assert solved[0] >= 60


def without_ids(columns: Columns) -> Columns:
    kept = {n: c for n, c in columns.per_token.items() if n != "token_torch.int32"}
    return replace(columns, per_token=kept)


def with_wide_ids(columns: Columns) -> Columns:
    ids = columns.per_token["token_torch.int32"].long()
    return replace(columns, per_token={**columns.per_token, "token_torch.int32": ids})


def with_other_lengths(columns: Columns) -> Columns:
    """Change two lengths so that their sum stays."""
    lengths = columns.lengths.clone()
    lengths[0] -= 1
    lengths[1] += 1
    return replace(columns, lengths=lengths)


def without_turns(columns: Columns) -> Columns:
    """Drop every turn and keep the columns."""
    none = {name: column[:0] for name, column in columns.per_turn.items()}
    return replace(columns, turns=torch.zeros_like(columns.lengths), per_turn=none)


FAULTS = {
    "column": (without_ids, ["column 'token_torch.int32'", "missing on rank 2"]),
    "dtype": (
        with_wide_ids,
        ["int32 on rank 0, 1, 3", "int64 on rank 2", "have token_bytes"],
    ),
    "turns": (without_turns, ["row 5 on rank 2 has 4 tokens and 0 turns"]),
    "rows": (lambda columns: columns.select([0]), ["rank 2 passes 1 rows", "source gives it 2"]),
    "lengths": (with_other_lengths, ["row 5 on rank 2 has 3 tokens", "the plan counts 4 and"]),
}


def dispatch_with_faults() -> dict[str, str]:
    rank = dist.get_rank()
    plan = make_plan(FOUR, BALANCED)
    calls = {
        name: (plan, fault(held_by(rank, FOUR)) if rank == 2 else held_by(rank, FOUR), "all_to_all")
        for name, (fault, _) in FAULTS.items()
    }
    other_plan = make_plan(FOUR, BACKWARDS)
    large = make_plan(FOUR, Layout.contiguous(num_rows=NUM_ROWS, num_ranks=5))
    mine = held_by(rank, FOUR)
    calls["plan"] = (other_plan if rank == 0 else plan, mine, "all_to_all")
    calls["transport"] = (plan, mine, "gather_scatter" if rank == 3 else "all_to_all")
    calls["unknown"] = (plan, mine, "all_to_al")
    calls["local"] = (plan, mine, "local")
    calls["large"] = (large, mine, "all_to_all")
    float_name = "token_torch.float32"
    compress = {"compressed": {float_name: "bfloat16"} if rank == 3 else None}
    calls["compressed"] = (plan, mine, "all_to_all")
    buffers = {"buffers": 64 if rank == 1 else None, "no buffer": 0 if rank == 2 else 64}
    calls |= dict.fromkeys(buffers, (plan, mine, "all_to_all"))
    messages: dict[str, str] = {}
    for name, (a_plan, columns, transport) in calls.items():
        with pytest.raises(ValueError, match=r"rank|transport") as refused:
            dispatch(
                a_plan,
                columns,
                transport=transport,
                max_buffer_bytes=buffers.get(name),
                compress=compress.get(name),
                timeout_s=20.0,
            )
        messages[name] = str(refused.value)
    # The refusals have left nothing behind in the group.
    assert_same_bits(
        dispatch(plan, mine, transport="all_to_all"), make_batch().select(BALANCED.rows_of(rank))
    )
    return messages


@pytest.fixture(scope="module")
def refusals() -> list[dict[str, str]]:
    return run_ranks(4, dispatch_with_faults)


@pytest.mark.parametrize(
    ("name", "parts"),
    [(name, parts) for name, (_, parts) in FAULTS.items()]
    + [
        ("plan", ["plan is number", "on rank 0 but number", "on rank 1, 2, 3"]),
        ("transport", ["transport is 'all_to_all' on rank 0, 1, 2 but 'gather_scatter' on rank 3"]),
        (
            "compressed",
            [
                "compression of column 'token_torch.float32' is none on rank 0, 1, 2 but bfloat16 "
                "on rank 3"
            ],
        ),
        ("unknown", ["unknown transport 'all_to_al', did you mean 'all_to_all'"]),
        ("local", ["'local' serves 1 rank, the process group has 4"]),
        ("large", ["the plan needs 5 ranks, the process group has 4"]),
        ("buffers", ["max_buffer_bytes is None on rank 0, 2, 3 but 64 on rank 1"]),
        (
            "no buffer",
            [
                "is 64 on rank 0, 1, 3 but 0 on rank 2",
                "rank 2: max_buffer_bytes must be >= 1, got 0",
            ],
        ),
    ],
)
def test_what_one_rank_has_wrong_is_refused_by_all_in_the_same_words(refusals, name, parts):
    messages = [refused[name] for refused in refusals]
    assert len(set(messages)) == 1
    for part in parts:
        assert part in messages[0]


@pytest.mark.parametrize("transport", [*DISTRIBUTED, "local"])
def test_one_rank_needs_no_process_group(transport):
    batch = make_batch()
    assert_same_bits(dispatch(make_plan(ALONE, ALONE), batch, transport=transport), batch)


def test_one_rank_is_checked_like_many():
    with pytest.raises(ValueError, match="rank 0 passes 1 rows, the plan's source gives it 9"):
        dispatch(make_plan(ALONE, ALONE), make_batch().select([0]), transport="all_to_all")
    with pytest.raises(ValueError, match="the plan needs 4 ranks, the process group has 1"):
        dispatch(make_plan(FOUR, FOUR), make_batch(), transport="all_to_all")
    with pytest.raises(ValueError, match="timeout_s must be > 0, got 0"):
        dispatch(make_plan(ALONE, ALONE), make_batch(), transport="all_to_all", timeout_s=0.0)
    with pytest.raises(ValueError, match="nothing was sent: rank 0: max_buffer_bytes must be >= 1"):
        dispatch(make_plan(ALONE, ALONE), make_batch(), transport="all_to_all", max_buffer_bytes=-5)
