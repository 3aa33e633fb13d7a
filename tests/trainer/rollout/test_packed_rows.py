"""One pass over rows with different numbers of new tokens against attention written out."""

import pytest
import torch
from earl_trainer.models.attention import Packing
from earl_trainer.rollout.kv_rooms import KeyValueRooms
from earl_trainer.rollout.packed_rows import NewTokens, PackedRows
from hypothesis import given, settings
from hypothesis import strategies as st

DIM, SCALING = 8, 0.3
CPU = torch.device("cpu")


def attend_alone(query, keys, values):
    """Causal attention of the last tokens of one context; [heads, tokens, dim] each."""
    num_new, num_tokens = query.shape[1], keys.shape[1]
    keys, values = (x.repeat_interleave(len(query) // len(x), dim=0) for x in (keys, values))
    scores = SCALING * query @ keys.transpose(1, 2)
    position = torch.arange(num_tokens - num_new, num_tokens)[:, None]
    scores = scores.masked_fill(torch.arange(num_tokens) > position, float("-inf"))
    return scores.softmax(-1) @ values


class World:
    """Contexts of random states, which passes read piece by piece."""

    def __init__(self, *, num_rows, num_slots, heads=4, kv_heads=2, dtype=torch.float32, seed=0):
        rng = torch.Generator().manual_seed(seed)
        shapes = ((heads, "query"), (kv_heads, "key"), (kv_heads, "value"))
        self.states = {
            name: torch.randn((num_rows, num, num_slots, DIM), generator=rng).to(dtype)
            for num, name in shapes
        }
        self.rooms = KeyValueRooms()
        self.rooms.reshape(num_rows, num_slots, keep=[])
        self.held = [0] * num_rows

    def read(self, news):
        """Let rows read so many new tokens; return outputs and what they should be, per row."""
        parts = [
            NewTokens(row=row, num_held=self.held[row], ids=list(range(100 * row, 100 * row + new)))
            for row, new in news.items()
        ]
        packed = PackedRows(self.rooms, parts, device=CPU)
        assert isinstance(packed, Packing)
        lane = {}
        for place, (row, position) in enumerate(
            zip((packed.token_ids // 100).tolist(), packed.position_ids.tolist(), strict=True)
        ):
            lane.setdefault(row, []).append(place)
            assert position == self.held[row] + len(lane[row]) - 1
        assert [lane[part.row][-1] for part in parts] == packed.last.tolist()
        order = sorted((place, row) for row, places in lane.items() for place in places)
        rows = [row for _, row in order]
        columns = packed.position_ids.tolist()
        query, key, value = (
            self.states[name][rows, :, columns].transpose(0, 1)[None]
            for name in ("query", "key", "value")
        )
        got = packed.attend(0, query, key, value, scaling=SCALING)[0]
        outputs = {}
        for row, new in news.items():
            start, stop = self.held[row], self.held[row] + new
            self.held[row] = stop
            expected = attend_alone(
                self.states["query"][row, :, start:stop],
                self.states["key"][row, :, :stop],
                self.states["value"][row, :, :stop],
            )
            outputs[row] = (got[:, lane[row]], expected)
        return outputs


def assert_equal(outputs, *, atol=1e-5):
    for row, (got, expected) in outputs.items():
        torch.testing.assert_close(
            got, expected, atol=atol, rtol=0.0, msg=lambda text, row=row: f"row {row}: {text}"
        )


@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (6, 1)])
def test_rows_that_read_and_rows_that_decode_share_a_pass(heads, kv_heads):
    world = World(num_rows=6, num_slots=32, heads=heads, kv_heads=kv_heads)
    assert_equal(world.read({0: 5, 1: 7, 3: 1, 4: 3}))
    assert_equal(world.read({3: 1, 0: 1, 5: 9, 1: 4, 4: 1}))
    assert_equal(world.read(dict.fromkeys((5, 4, 3, 1, 0), 1)))
    # A row that begins anew does not see what lay in it before.
    world.held[1] = 0
    assert_equal(world.read({1: 2, 0: 2}))


def test_rows_far_apart_are_read_as_a_copy_and_near_ones_as_a_view():
    world = World(num_rows=40, num_slots=16)
    views = []
    read = world.rooms.read

    def recorded(layer, rows, *, num_slots):
        views.append(isinstance(rows, slice))
        return read(layer, rows, num_slots=num_slots)

    world.rooms.read = recorded
    assert_equal(world.read({0: 3, 39: 4}))
    assert_equal(world.read({0: 1, 39: 1}))
    assert_equal(world.read({0: 1, 1: 2, 3: 2, 2: 1}))
    assert_equal(world.read({5: 4, 6: 3}))
    assert views == [False, False, True, False, True]


def test_a_row_without_tokens_among_the_others_stays_as_it_is():
    world = World(num_rows=3, num_slots=8)
    assert_equal(world.read({0: 2, 1: 2, 2: 2}))
    before = world.rooms.read(0, slice(1, 2), num_slots=8)[0].clone()
    outputs = world.read({0: 1, 2: 1})
    assert_equal(outputs)
    assert all(got.isfinite().all() for got, _ in outputs.values())
    assert torch.equal(world.rooms.read(0, slice(1, 2), num_slots=8)[0], before)


def test_half_precision_is_kept():
    world = World(num_rows=3, num_slots=16, dtype=torch.bfloat16)
    outputs = world.read({0: 3, 2: 5})
    assert all(got.dtype == torch.bfloat16 for got, _ in outputs.values())
    assert_equal(outputs, atol=0.05)
    assert world.rooms.read(0, slice(0, 1), num_slots=1)[0].dtype == torch.bfloat16


@settings(derandomize=True, max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_is_read_when_each_row_attends_as_if_alone(data):
    num_rows = data.draw(st.integers(1, 9))
    world = World(num_rows=num_rows, num_slots=24, seed=data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.permutations(range(num_rows)))[: data.draw(st.integers(1, num_rows))]
        news = {row: data.draw(st.sampled_from([1, 1, 2, 3, 6])) for row in rows}
        assert_equal(world.read(news))
