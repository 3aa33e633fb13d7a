import math

import pytest
import torch
from earl_trainer.models import packed_sequences
from earl_trainer.models.packed_sequences import PackedSequences
from hypothesis import given, settings
from hypothesis import strategies as st

HEAD_DIM = 8


def states_of(num_tokens, num_heads, num_kv_heads, *, seed=0):
    """Query, key and value in double precision, with gradients."""
    rng = torch.Generator().manual_seed(seed)
    return [
        torch.randn((1, heads, num_tokens, HEAD_DIM), generator=rng, dtype=torch.float64)
        .requires_grad_()
        for heads in (num_heads, num_kv_heads, num_kv_heads)
    ]  # fmt: skip


def attend_one_by_one(lengths, query, key, value, scaling):
    """The textbook's softmax of scores, for each sequence and head."""
    share = query.shape[1] // key.shape[1]
    key, value = (each.repeat_interleave(share, dim=1) for each in (key, value))
    parts = []
    for q, k, v in zip(*(each.split(lengths, dim=2) for each in (query, key, value)), strict=True):
        future = torch.ones((q.shape[2], q.shape[2])).triu(1).bool()
        scores = (q @ k.transpose(2, 3) * scaling).masked_fill(future, -math.inf)
        parts.append(scores.softmax(-1) @ v)
    return torch.cat(parts, dim=2)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    heads=st.sampled_from([(2, 2), (4, 2), (3, 1)]),
)
def test_every_sequence_attends_to_itself_as_if_it_were_alone(lengths, heads):
    states = states_of(sum(lengths), *heads)
    twins = [each.detach().clone().requires_grad_() for each in states]
    expected = attend_one_by_one(lengths, *twins, 0.3)
    attended = PackedSequences(lengths).attend(0, *states, scaling=0.3)
    torch.testing.assert_close(attended, expected)
    weights = torch.linspace(-1.0, 1.0, expected.numel(), dtype=torch.float64).view_as(expected)
    for result in (attended, expected):
        (result * weights).sum().backward()
    for own, other in zip(states, twins, strict=True):
        torch.testing.assert_close(own.grad, other.grad)


def test_what_is_not_finite_stays_in_its_sequence():
    lengths = [3, 3, 2]
    states = [each.detach() for each in states_of(8, 2, 2)]
    before = PackedSequences(lengths).attend(0, *states, scaling=0.5)
    for each in states:
        each[:, :, 3:6] = math.nan
    after = PackedSequences(lengths).attend(0, *states, scaling=0.5)
    others = [0, 1, 2, 6, 7]
    assert torch.equal(after[:, :, others], before[:, :, others])
    assert after[:, :, 3:6].isnan().all()


def test_positions_begin_anew_with_every_sequence():
    assert PackedSequences([3, 1, 1, 2]).position_ids.tolist() == [0, 1, 2, 0, 0, 0, 1]


def test_a_sequence_without_tokens_takes_no_place():
    states = states_of(5, 2, 2)
    with_empty = PackedSequences([0, 3, 0, 2])
    assert with_empty.position_ids.tolist() == [0, 1, 2, 0, 1]
    assert torch.equal(
        with_empty.attend(0, *states, scaling=0.5),
        PackedSequences([3, 2]).attend(0, *states, scaling=0.5),
    )


def test_neighbours_of_equal_length_share_one_call(monkeypatch):
    seen = []
    attend = packed_sequences.scaled_dot_product_attention

    def noting(query, *rest, **options):
        seen.append(tuple(query.shape))
        return attend(query, *rest, **options)

    monkeypatch.setattr(packed_sequences, "scaled_dot_product_attention", noting)
    PackedSequences([4, 4, 4, 2, 2]).attend(0, *states_of(16, 2, 2), scaling=0.5)
    assert seen == [(3, 2, 4, HEAD_DIM), (2, 2, 2, HEAD_DIM)]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_attends_as_the_processor_does(dtype):
    lengths = [7, 7, 5, 1]
    states = states_of(20, 4, 2)
    expected = attend_one_by_one(lengths, *states, 0.3)
    on_gpu = [each.detach().to("cuda", dtype).requires_grad_() for each in states]
    attended = PackedSequences(lengths).attend(0, *on_gpu, scaling=0.3)
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(attended.double().cpu(), expected, atol=tolerance, rtol=tolerance)
    expected.sum().backward()
    attended.float().sum().backward()
    for own, other in zip(on_gpu, states, strict=True):
        torch.testing.assert_close(
            own.grad.double().cpu(), other.grad, atol=10 * tolerance, rtol=tolerance
        )
