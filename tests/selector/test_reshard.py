from math import lcm

import numpy as np
import pytest
from earl_selector import ParallelLayout, ParameterSpec, plan_reshard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

CHAINS = [(1, 2), (1, 2, 4), (1, 2, 4, 8), (2, 8), (1, 3), (1, 3, 6), (2, 6, 12), (4, 8), (1, 5)]
# Every degree up to 12 that the tests use divides 24 or 120.
SPECS = (
    ParameterSpec(name="rows", shape=(120, 3), element_bytes=2, sharded_dim=0),
    ParameterSpec(name="columns", shape=(2, 240), element_bytes=4, sharded_dim=1),
    ParameterSpec(name="bias", shape=(120,), element_bytes=2, sharded_dim=0),
    ParameterSpec(name="norm", shape=(7,), element_bytes=4, sharded_dim=None),
    ParameterSpec(name="scale", shape=(), element_bytes=4, sharded_dim=None),
)
SHARDED_BYTES = 120 * 3 * 2 + 2 * 240 * 4 + 120 * 2


def layout_of(num_ranks, tp, degrees=()):
    return ParallelLayout(num_ranks=num_ranks, tp=tp, degrees=degrees)


def make_whole(seed=0):
    rng = np.random.default_rng(seed)
    return {spec.name: rng.standard_normal(spec.shape) for spec in SPECS}


def cut(whole, layout):
    """Return what each rank holds, by slicing the whole."""
    return [
        {spec.name: whole[spec.name][index_of(spec, *interval_of(layout, spec, rank))]
         for spec in SPECS}
        for rank in range(layout.num_ranks)
    ]  # fmt: skip


def interval_of(layout, spec, rank):
    return (0, spec.size) if spec.sharded_dim is None else layout.interval(spec.size, rank)


def index_of(spec, start, end):
    if not spec.shape:
        return ()
    dim = spec.sharded_dim or 0
    return (slice(None),) * dim + (slice(start, end),)


def execute(plan, held):
    """Move numpy slices as the plan says; what nobody writes stays NaN."""
    fresh = []
    for rank in range(plan.target.num_ranks):
        shards = {}
        for spec in plan.parameters:
            start, end = interval_of(plan.target, spec, rank)
            shape = list(spec.shape)
            if shape:
                shape[spec.sharded_dim or 0] = end - start
            shards[spec.name] = np.full(shape, np.nan)
            kept = plan.kept(spec, rank)
            if kept[0] < kept[1]:
                copy_slice(plan, spec, kept, (held[rank], rank), (shards, rank))
        fresh.append(shards)
    specs = {spec.name: spec for spec in plan.parameters}
    for move in plan.moves:
        source = held[move.source_rank], move.source_rank
        target = fresh[move.target_rank], move.target_rank
        num_bytes = copy_slice(plan, specs[move.parameter], (move.start, move.end), source, target)
        assert num_bytes == move.num_bytes
    return fresh


def copy_slice(plan, spec, piece, source, target):
    (old, old_rank), (new, new_rank) = source, target
    old_start, _ = interval_of(plan.source, spec, old_rank)
    new_start, _ = interval_of(plan.target, spec, new_rank)
    content = old[spec.name][index_of(spec, piece[0] - old_start, piece[1] - old_start)]
    place = index_of(spec, piece[0] - new_start, piece[1] - new_start)
    assert np.isnan(new[spec.name][place]).all()  # Nothing arrives twice.
    new[spec.name][place] = content
    return content.size * spec.element_bytes


def assert_holds(held, whole, layout):
    for shards, wanted in zip(held, cut(whole, layout), strict=True):
        for name, value in wanted.items():
            np.testing.assert_array_equal(shards[name], value)


@st.composite
def sizes(draw, same_num_ranks=True):
    """Degrees with or without a common chain, two of them, and how many ranks run at each."""
    degrees = draw(st.sampled_from([*CHAINS, (2, 3), (3, 4, 6), (1, 2, 3, 4, 6, 8), ()]))
    a, b = (draw(st.sampled_from(degrees or (1, 2, 3, 4))) for _ in range(2))
    num_a = lcm(a, b) * draw(st.integers(1, 2))
    num_b = num_a if same_num_ranks else b * draw(st.integers(1, 6))
    return degrees, (num_a, a), (num_b, b)


def layouts_of(drawn):
    # Not made in the strategy, where beartype's sampling of containers counts as randomness.
    degrees, source, target = drawn
    return layout_of(*source, degrees), layout_of(*target, degrees)


@settings(deadline=None, max_examples=50)
@given(sizes(), st.integers(0, 9))
def test_there_and_back_is_the_identity(drawn, seed):
    source, target = layouts_of(drawn)
    whole = make_whole(seed)
    there = execute(plan_reshard(source, target, SPECS), cut(whole, source))
    assert_holds(there, whole, target)
    back = execute(plan_reshard(target, source, SPECS), there)
    assert_holds(back, whole, source)


@settings(deadline=None, max_examples=50)
@given(sizes(same_num_ranks=False))
def test_ranks_that_come_or_go_are_served_or_ignored(drawn):
    source, target = layouts_of(drawn)
    whole = make_whole()
    plan = plan_reshard(source, target, SPECS)
    assert_holds(execute(plan, cut(whole, source)), whole, target)
    norms = [move.target_rank for move in plan.moves if move.parameter == "norm"]
    assert norms == list(range(source.num_ranks, target.num_ranks))


@settings(deadline=None, max_examples=50)
@given(sizes(same_num_ranks=False))
def test_bytes_moved_are_what_ranks_need_and_do_not_hold(drawn):
    source, target = layouts_of(drawn)
    plan = plan_reshard(source, target, SPECS)
    missing = [0] * target.num_ranks
    for rank in range(target.num_ranks):
        for spec in SPECS:
            need = set(range(*interval_of(target, spec, rank)))
            if rank < source.num_ranks:
                need -= set(range(*interval_of(source, spec, rank)))
            missing[rank] += len(need) * (spec.num_bytes // spec.size)
    assert [plan.received_bytes(rank) for rank in range(target.num_ranks)] == missing
    assert plan.bytes_moved == plan.bytes_lower_bound == sum(missing)
    assert sum(plan.sent_bytes(rank) for rank in range(source.num_ranks)) == sum(missing)


@settings(deadline=None)
@given(st.sampled_from(CHAINS), st.data(), st.integers(1, 3))
def test_nested_order_moves_nothing_upward_and_the_least_downward(chain, data, dp):
    a, b = sorted(data.draw(st.sampled_from(chain)) for _ in range(2))
    num_ranks = max(chain) * dp
    low, high = layout_of(num_ranks, a, chain), layout_of(num_ranks, b, chain)
    assert plan_reshard(low, high, SPECS).moves == ()
    down = plan_reshard(high, low, SPECS)
    for rank in range(num_ranks):
        assert down.received_bytes(rank) == SHARDED_BYTES // a - SHARDED_BYTES // b
        assert down.sent_bytes(rank) == down.received_bytes(rank)


def test_default_order_must_move_what_the_nested_one_keeps():
    plan = plan_reshard(layout_of(8, 4), layout_of(8, 8), SPECS)
    # Eighths 2r and 2r + 1 lie in quarter r mod 4 on no more than two of the eight ranks.
    assert plan.bytes_moved == 6 * SHARDED_BYTES // 8


@settings(deadline=None, max_examples=50)
@given(sizes())
def test_senders_of_a_shard_differ_by_at_most_one_piece(drawn):
    source, target = layouts_of(drawn)
    specs = [
        ParameterSpec(name=f"p{number}", shape=(120,), element_bytes=2, sharded_dim=0)
        for number in range(6)
    ]
    plan = plan_reshard(source, target, specs)
    assume(plan.moves)
    largest_bytes = max(move.num_bytes for move in plan.moves)
    for shard in range(source.tp):
        loads = [
            plan.sent_bytes(rank)
            for rank in range(source.num_ranks)
            if source.shard_of(rank) == shard
        ]
        assert max(loads) - min(loads) <= largest_bytes


def test_whole_parameters_come_from_ranks_in_turn():
    specs = [
        ParameterSpec(name=f"norm{number}", shape=(8,), element_bytes=4, sharded_dim=None)
        for number in range(4)
    ]
    plan = plan_reshard(layout_of(2, 1), layout_of(4, 2), specs)
    assert [plan.sent_bytes(rank) for rank in (0, 1)] == [4 * 32, 4 * 32]
    assert [plan.received_bytes(rank) for rank in range(4)] == [0, 0, 128, 128]


def test_a_degree_that_does_not_divide_a_sharded_size_is_refused():
    spec = ParameterSpec(name="lm_head", shape=(10, 4), element_bytes=2, sharded_dim=0)
    with pytest.raises(ValueError, match="tp 4 does not divide the sharded size 10 of lm_head"):
        plan_reshard(layout_of(4, 2), layout_of(4, 4), [spec])
    with pytest.raises(ValueError, match="tp 4 does not divide the sharded size 10 of lm_head"):
        plan_reshard(layout_of(4, 4), layout_of(4, 2), [spec])


def test_parameters_without_a_name_of_their_own_or_a_dimension_are_refused():
    with pytest.raises(ValueError, match=r"got twice: norm"):
        plan_reshard(layout_of(1, 1), layout_of(1, 1), [SPECS[3], SPECS[0], SPECS[3]])
    with pytest.raises(ValueError, match=r"sharded_dim of bias must be .* of \(4,\), got 1"):
        ParameterSpec(name="bias", shape=(4,), element_bytes=2, sharded_dim=1)
    with pytest.raises(ValueError, match="sizes of bias must be >= 1"):
        ParameterSpec(name="bias", shape=(0,), element_bytes=2, sharded_dim=0)


@settings(deadline=None)
@given(st.sampled_from(CHAINS), st.data(), st.integers(2, 3))
def test_downward_along_a_chain_nothing_leaves_its_engine(chain, data, dp):
    b, a = sorted(data.draw(st.sampled_from(chain)) for _ in range(2))
    source = layout_of(max(chain) * dp, a, chain)
    plan = plan_reshard(source, layout_of(max(chain) * dp, b, chain), SPECS)
    for move in plan.moves:
        assert source.engine_of(move.source_rank) == source.engine_of(move.target_rank)
