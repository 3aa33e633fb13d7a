import pytest
import torch
from earl_trainer.asynchronous.flat_weights import FlatLayout
from hypothesis import given, settings
from hypothesis import strategies as st

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)


def make_parameters(shapes, seed=0):
    rng = torch.Generator().manual_seed(seed)
    return [
        torch.randint(0, 2, shape, generator=rng).to(DTYPES[place % len(DTYPES)])
        for place, shape in enumerate(shapes)
    ]


@settings(deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=6),
    bucket_bytes=st.integers(1, 200),
)
def test_what_is_gathered_in_buckets_is_split_into_the_same_parameters(shapes, bucket_bytes):
    parameters = make_parameters(shapes)
    layout = FlatLayout.of(parameters)
    row = torch.full((layout.offsets_bytes[-1],), 7, dtype=torch.uint8)
    for begin, end in layout.buckets(bucket_bytes):
        layout.gather(parameters, begin, row[begin:end])
    for parameter, content in zip(parameters, layout.split(row), strict=True):
        assert torch.equal(content.view(parameter.dtype).view(parameter.shape), parameter)


@pytest.mark.parametrize(
    ("bucket_bytes", "buckets"),
    [(40, [(0, 40), (40, 64)]), (64, [(0, 64)]), (65, [(0, 64)]), (1000, [(0, 64)])],
)
def test_buckets_cover_the_row_once(bucket_bytes, buckets):
    assert FlatLayout(sizes_bytes=(3, 0, 16, 17)).offsets_bytes == [0, 16, 16, 32, 64]
    assert FlatLayout(sizes_bytes=(3, 0, 16, 17)).buckets(bucket_bytes) == buckets


def test_a_parameter_that_is_a_view_of_another_order_is_gathered_as_it_reads():
    matrix = torch.arange(6.0).view(2, 3).T
    layout = FlatLayout.of([matrix])
    row = torch.zeros(layout.offsets_bytes[-1], dtype=torch.uint8)
    layout.gather([matrix], 0, row)
    assert torch.equal(layout.split(row)[0].view(torch.float32).view(3, 2), matrix)
