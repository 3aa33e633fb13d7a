import torch
from earl_dispatch import Columns, bytes_per_row
from earl_dispatch.testing import assert_same_bits, random_columns
from earl_dispatch.wire import pack, unpack
from hypothesis import given, settings
from hypothesis import strategies as st


@settings(deadline=None, max_examples=50)
@given(lengths=st.lists(st.integers(0, 9), max_size=6), seed=st.integers(0, 2**32))
def test_unpack_gives_back_every_bit_of_every_dtype(lengths, seed):
    columns = random_columns(lengths, torch.Generator().manual_seed(seed))
    buffer = pack(columns)
    assert_same_bits(unpack(buffer, columns.schema(), num_rows=len(lengths)), columns)


@settings(deadline=None, max_examples=50)
@given(lengths=st.lists(st.integers(0, 9), max_size=6))
def test_the_buffer_is_exactly_as_large_as_the_rows_weigh(lengths):
    columns = random_columns(lengths, torch.Generator().manual_seed(0))
    assert pack(columns).shape[0] == sum(bytes_per_row(columns.schema(), lengths))


def test_a_nan_keeps_its_payload():
    bits = torch.tensor([0x7FC12345, 0x7F812345], dtype=torch.int32)
    columns = Columns(
        lengths=torch.tensor([2]), per_token={"logp": bits.view(torch.float32)}, per_row={}
    )
    back = unpack(pack(columns), columns.schema(), num_rows=1)
    assert back.per_token["logp"].view(torch.int32).tolist() == bits.tolist()


def test_the_buffer_does_not_depend_on_mapping_order():
    ids, done = torch.tensor([1, 2]), torch.tensor([True, False])
    one = Columns(lengths=torch.tensor([2]), per_token={"a": ids, "b": done}, per_row={})
    two = Columns(lengths=torch.tensor([2]), per_token={"b": done, "a": ids}, per_row={})
    assert pack(one).tolist() == pack(two).tolist()


def test_a_strided_column_is_packed_by_value():
    every_other = torch.arange(6)[::2]
    columns = Columns(lengths=torch.tensor([3]), per_token={"ids": every_other}, per_row={})
    back = unpack(pack(columns), columns.schema(), num_rows=1)
    assert back.per_token["ids"].tolist() == [0, 2, 4]
