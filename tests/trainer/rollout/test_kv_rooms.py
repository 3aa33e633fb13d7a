"""Where keys and values are written, moved and found again."""

import torch
from earl_trainer.rollout.kv_rooms import KeyValueRooms

HEADS, DIM = 2, 4


def make_rooms(num_rows, num_slots, *, num_layers=2):
    """Rooms whose every slot holds its row, its slot, its head and its layer."""
    rooms = KeyValueRooms()
    rooms.reshape(num_rows, num_slots, keep=[])
    for layer in range(num_layers):
        for row in range(num_rows):
            key = torch.stack([states(row, slot, layer) for slot in range(num_slots)])
            slots = row * num_slots + torch.arange(num_slots)
            rooms.write(layer, slots, key, -key)
    return rooms


def states(row, slot, layer):
    heads = torch.arange(HEADS, dtype=torch.float32)[:, None].expand(HEADS, DIM)
    return 1000.0 * row + 10.0 * slot + heads + 0.5 * layer


def assert_holds(rooms, row, expected_row, num_tokens):
    for layer in range(2):
        keys, values = rooms.read(layer, slice(row, row + 1), num_slots=num_tokens)
        expected = torch.stack([states(expected_row, slot, layer) for slot in range(num_tokens)])
        torch.testing.assert_close(keys[0], expected.transpose(0, 1))
        torch.testing.assert_close(values[0], -expected.transpose(0, 1))


def test_what_is_written_is_read_in_the_models_order():
    rooms = make_rooms(3, 5)
    for row in range(3):
        assert_holds(rooms, row, row, 5)
    keys, values = rooms.read(1, torch.tensor([2, 0]), num_slots=2)
    assert keys.shape == values.shape == (2, HEADS, 2, DIM)
    torch.testing.assert_close(keys[0, :, 1], states(2, 1, 1))
    torch.testing.assert_close(values[1, :, 0], -states(0, 0, 1))


def test_neighbouring_rows_are_read_without_a_copy():
    rooms = make_rooms(3, 5)
    keys, values = rooms.read(0, slice(1, 3), num_slots=4)
    with torch.no_grad():
        rooms.write(
            0, torch.tensor([5 + 2]), torch.full((1, HEADS, DIM), 7.0), torch.zeros(1, 2, 4)
        )
    assert (keys[0, :, 2] == 7.0).all()
    assert (values[0, :, 2] == 0.0).all()


def test_rows_that_are_kept_move_to_the_front_of_longer_ones():
    rooms = make_rooms(4, 5)
    rooms.reshape(3, 8, keep=[(1, 5), (3, 2)])
    assert (rooms.num_rows, rooms.num_slots) == (3, 8)
    assert_holds(rooms, 0, 1, 5)
    assert_holds(rooms, 1, 3, 2)
    keys, _ = rooms.read(0, slice(0, 3), num_slots=8)
    assert not keys[0, :, 5:].any()
    assert not keys[1, :, 2:].any()
    assert not keys[2].any()


def test_the_beginning_of_a_row_is_copied_to_others_and_no_more():
    rooms = make_rooms(4, 5)
    rooms.copy(1, [0, 3], num_tokens=3)
    for row in (0, 3):
        assert_holds(rooms, row, 1, 3)
        keys, _ = rooms.read(0, slice(row, row + 1), num_slots=5)
        torch.testing.assert_close(keys[0, :, 3], states(row, 3, 0))
    assert_holds(rooms, 2, 2, 5)


def test_storage_is_counted_as_it_is_and_given_back():
    rooms = KeyValueRooms()
    rooms.reshape(3, 5, keep=[])
    assert rooms.num_bytes == 0
    rooms = make_rooms(3, 5)
    assert rooms.num_bytes == 2 * 2 * 3 * 5 * HEADS * DIM * 4
    rooms.reshape(2, 4, keep=[(0, 4)])
    assert rooms.num_bytes == 2 * 2 * 2 * 4 * HEADS * DIM * 4
    rooms.clear()
    assert rooms.num_bytes == 0
    assert (rooms.num_rows, rooms.num_slots) == (2, 4)


def test_new_rooms_hold_nothing_that_a_mask_could_not_hide():
    rooms = KeyValueRooms()
    rooms.reshape(64, 64, keep=[])
    one = torch.ones(1, HEADS, DIM, dtype=torch.bfloat16)
    rooms.write(0, torch.tensor([3]), one, one)
    keys, values = rooms.read(0, slice(0, 64), num_slots=64)
    assert keys.dtype == torch.bfloat16
    assert keys.sum() == values.sum() == HEADS * DIM
