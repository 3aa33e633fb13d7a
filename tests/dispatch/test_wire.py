from dataclasses import replace

import torch
from earl_dispatch import Columns
from earl_dispatch.testing import assert_same_bits, random_columns
from earl_dispatch.wire import pack, unpack
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

lengths_lists = st.lists(st.integers(0, 19), max_size=6)


def without_values(columns: Columns) -> Columns:
    return Columns(lengths=columns.lengths, per_token=columns.per_token)


@settings(deadline=None, max_examples=50)
@given(lengths=lengths_lists, seed=st.integers(0, 2**32))
def test_unpack_gives_back_every_bit_of_every_dtype(lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    buffer = pack(columns, with_values=True)
    back = unpack(buffer, columns.schema(), lengths=columns.lengths, turns=columns.turns)
    assert_same_bits(back, columns)


@settings(deadline=None, max_examples=50)
@given(lengths=lengths_lists, seed=st.integers(0, 2**32))
def test_tokens_stand_in_front_and_can_be_read_alone(lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    whole, tokens = (pack(columns, with_values=flag) for flag in (True, False))
    assert whole[: len(tokens)].equal(tokens)
    back = unpack(tokens, columns.schema(), lengths=columns.lengths, turns=None)
    assert_same_bits(back, without_values(columns))


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(lengths=lengths_lists)
def test_the_buffer_is_exactly_as_large_as_the_rows_weigh(sizes_of, lengths):
    columns = random_columns(lengths, torch.Generator().manual_seed(0))
    sizes = sizes_of(columns)
    weight = sum(sizes.row_bytes(row) for row in range(columns.num_rows))
    assert len(pack(columns, with_values=True)) == weight


def test_nothing_but_values_is_on_the_wire():
    ids, mask = torch.tensor([7, 8, 9], dtype=torch.int32), torch.tensor([True, False, True])
    columns = Columns(lengths=torch.tensor([2, 1]), per_token={"ids": ids, "mask": mask})
    # Three int32, then one byte of bits for each row, the first token in the lowest bit.
    assert pack(columns, with_values=True).tolist() == [7, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 0, 1, 1]


def test_a_nan_keeps_its_payload():
    bits = torch.tensor([0x7FC12345, 0x7F812345], dtype=torch.int32)
    columns = Columns(lengths=torch.tensor([2]), per_token={"logp": bits.view(torch.float32)})
    buffer = pack(columns, with_values=False)
    back = unpack(buffer, columns.schema(), lengths=columns.lengths, turns=None)
    assert back.per_token["logp"].view(torch.int32).tolist() == bits.tolist()


def test_the_buffer_does_not_depend_on_mapping_order():
    columns = random_columns([3, 2], torch.Generator().manual_seed(1))
    turned = replace(columns, per_token=dict(reversed(list(columns.per_token.items()))))
    assert pack(columns, with_values=True).equal(pack(turned, with_values=True))


def test_a_strided_column_is_packed_by_value():
    columns = Columns(lengths=torch.tensor([3]), per_token={"ids": torch.arange(6)[::2]})
    buffer = pack(columns, with_values=False)
    back = unpack(buffer, columns.schema(), lengths=columns.lengths, turns=None)
    assert back.per_token["ids"].tolist() == [0, 2, 4]
