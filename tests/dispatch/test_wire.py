import torch
from earl_dispatch import Columns, RowSizes
from earl_dispatch.testing import assert_same_bits, random_columns
from earl_dispatch.wire import Places, byte_runs, move, pack, unpack
from hypothesis import given, settings
from hypothesis import strategies as st

lengths_lists = st.lists(st.integers(0, 19), max_size=6)


def whole_rows(columns: Columns, rows: list[int], *, with_values: bool = True) -> Places:
    offsets, counts = columns.offsets().tolist(), columns.turn_counts()
    turn_offsets = (counts.cumsum(0) - counts).tolist()
    return Places(
        rows=rows,
        starts=[offsets[row] for row in rows],
        lengths=[columns.lengths.tolist()[row] for row in rows],
        turn_starts=[turn_offsets[row] for row in rows],
        turns=[counts.tolist()[row] for row in rows],
        with_values=with_values,
    )


def packed(columns: Columns, rows: list[int], *, with_values: bool = True) -> torch.Tensor:
    sizes = RowSizes.of_columns(columns)
    size = sum(sizes.piece_bytes(sizes.lengths[row]) for row in rows)
    size += sum(sizes.values_bytes(row) for row in rows) if with_values else 0
    buffer = torch.full((size,), 0xAA, dtype=torch.uint8)
    pack(columns, whole_rows(columns, rows, with_values=with_values), buffer)
    return buffer


def zeros_like(columns: Columns) -> Columns:
    return Columns(
        lengths=columns.lengths,
        per_token={name: torch.zeros_like(c) for name, c in columns.per_token.items()},
        per_row={name: torch.zeros_like(c) for name, c in columns.per_row.items()},
        turns=columns.turns,
        per_turn={name: torch.zeros_like(c) for name, c in columns.per_turn.items()},
    )


@settings(deadline=None, max_examples=50)
@given(data=st.data(), lengths=lengths_lists, seed=st.integers(0, 2**32))
def test_rows_come_back_bit_for_bit_from_two_buffers_in_any_order(data, lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    order = data.draw(st.permutations(range(len(lengths))))
    cut = data.draw(st.integers(0, len(lengths)))
    back = zeros_like(columns)
    for rows in (order[cut:], order[:cut]):
        unpack(packed(columns, rows), whole_rows(back, rows), back)
    assert_same_bits(back, columns)


@settings(deadline=None, max_examples=50)
@given(lengths=lengths_lists, seed=st.integers(0, 2**32))
def test_tokens_stand_in_front_of_the_values(lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    rows = list(range(len(lengths)))
    tokens = packed(columns, rows, with_values=False)
    assert packed(columns, rows)[: len(tokens)].equal(tokens)
    back = zeros_like(columns)
    unpack(tokens, whole_rows(back, rows, with_values=False), back)
    only_tokens = Columns(lengths=columns.lengths, per_token=columns.per_token)
    assert_same_bits(Columns(lengths=back.lengths, per_token=back.per_token), only_tokens)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), lengths=lengths_lists, seed=st.integers(0, 2**32))
def test_rows_are_moved_bit_for_bit_to_other_places(data, lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    order = data.draw(st.permutations(range(len(lengths))))
    moved = columns.select(order)
    back = zeros_like(columns)
    move(moved, whole_rows(moved, list(range(len(order)))), back, whole_rows(back, order))
    assert_same_bits(back, columns)


@settings(deadline=None, max_examples=50)
@given(data=st.data(), lengths=lengths_lists, seed=st.integers(0, 2**32))
def test_runs_of_bytes_are_what_is_moved(data, lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    order = data.draw(st.permutations(range(len(lengths))))
    chosen = order[: data.draw(st.integers(0, len(lengths)))]
    with_values = data.draw(st.booleans())
    moved, expected, back = columns.select(chosen), zeros_like(columns), zeros_like(columns)
    there = whole_rows(moved, list(range(len(chosen))), with_values=with_values)
    here = whole_rows(columns, chosen, with_values=with_values)
    move(moved, there, expected, here)
    schema = columns.schema()
    for kind, names in (
        ("per_token", schema.per_token), ("per_row", schema.per_row), ("per_turn", schema.per_turn)
    )[: 3 if with_values else 1]:  # fmt: skip
        for name, dtype in names:
            runs = all_runs(schema, there, here)[name]
            source, target = (getattr(c, kind)[name].view(torch.uint8) for c in (moved, back))
            for to, start, num_bytes in runs:
                assert num_bytes % dtype.itemsize == 0
                target[to : to + num_bytes] = source[start : start + num_bytes]
    assert_same_bits(back, expected)


def all_runs(schema, there, here):
    names = [name for name, _ in (*schema.per_token, *schema.per_row, *schema.per_turn)]
    return dict(zip(names, byte_runs(schema, there, here), strict=False))


def test_nothing_but_values_is_on_the_wire():
    ids, mask = torch.tensor([7, 8, 9], dtype=torch.int32), torch.tensor([True, False, True])
    columns = Columns(lengths=torch.tensor([2, 1]), per_token={"a": mask, "ids": ids})
    # Three int32, then one byte of bits for each row, the first token in the lowest bit.
    expected = [7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1, 1]
    assert packed(columns, [0, 1]).tolist() == expected


def test_a_nan_keeps_its_payload():
    bits = torch.tensor([0x7FC12345, 0x7F812345], dtype=torch.int32)
    columns = Columns(lengths=torch.tensor([2]), per_token={"logp": bits.view(torch.float32)})
    back = zeros_like(columns)
    unpack(packed(columns, [0]), whole_rows(back, [0]), back)
    assert back.per_token["logp"].view(torch.int32).tolist() == bits.tolist()


def test_a_buffer_need_not_be_aligned():
    columns = Columns(lengths=torch.tensor([2]), per_token={"x": torch.tensor([1.5, -2.0])})
    memory = torch.zeros(9, dtype=torch.uint8)
    pack(columns, whole_rows(columns, [0]), memory[1:])
    back = zeros_like(columns)
    unpack(memory[1:], whole_rows(back, [0]), back)
    assert back.per_token["x"].tolist() == [1.5, -2.0]


def test_a_strided_column_is_packed_by_value():
    columns = Columns(lengths=torch.tensor([3]), per_token={"ids": torch.arange(6)[::2]})
    back = zeros_like(columns)
    unpack(packed(columns, [0]), whole_rows(back, [0]), back)
    assert back.per_token["ids"].tolist() == [0, 2, 4]
