import pytest
import torch
from earl_dispatch import ragged
from earl_dispatch.ragged import copy_pieces
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(("long_run", "block"), [(1, 10**6), (10**6, 10**6), (10**6, 3)])
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data(), lengths=st.lists(st.integers(0, 6), max_size=8))
def test_every_way_of_copying_puts_each_piece_in_its_place(
    monkeypatch, long_run, block, data, lengths
):
    monkeypatch.setattr(ragged, "_LONG_RUN", long_run)
    monkeypatch.setattr(ragged, "_BLOCK", block)
    order = data.draw(st.permutations(range(len(lengths))))
    starts = [sum(lengths[:piece]) for piece in range(len(lengths))]
    places, filled = {}, 0
    for piece in order:
        places[piece] = filled
        filled += lengths[piece]
    source = torch.arange(1, sum(lengths) + 1)
    target = torch.zeros_like(source)
    copy_pieces(target, [places[p] for p in range(len(lengths))], source, starts, lengths)
    expected = [start + k + 1 for p in order for start in [starts[p]] for k in range(lengths[p])]
    assert target.tolist() == expected


def test_what_is_not_named_stays():
    target = torch.zeros(5, dtype=torch.int64)
    copy_pieces(target, [1, 4], torch.arange(10, 15), [3, 0], [2, 1])
    assert target.tolist() == [0, 13, 14, 0, 10]
