import pytest
from earl_envs import GameRecord, make_batch, make_game, replay


def test_a_record_replays_to_the_state_of_the_batch_it_was_read_from():
    batch = make_batch("earl/ConnectFour-v0", batch_size=2, seed=5)
    for action in (3, 3, 2, 6):
        batch.step([action, 6 - action])
    record = GameRecord(game_id="earl/ConnectFour-v0", seed=batch.seeds[1], moves=batch.moves(1))
    positions = GameRecord.from_json(record.to_json()).positions()
    assert len(positions) == 5
    assert positions[-1].state == batch.state(1)
    assert GameRecord.from_json(record.to_json()) == record


def test_a_record_with_an_illegal_move_names_its_place():
    with pytest.raises(ValueError, match="move 2 of the record, action 4, is not legal"):
        replay(make_game("earl/TicTacToe-v0"), 0, (4, 0, 4))


def test_a_record_that_goes_on_after_the_end_is_refused():
    with pytest.raises(ValueError, match="move 5 of the record"):
        replay(make_game("earl/TicTacToe-v0"), 0, (0, 3, 1, 4, 2, 5))
