import json
import pickle
import subprocess
import sys

import numpy as np
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


def test_moves_of_any_kind_make_equal_records_that_can_be_counted():
    def record(moves):
        return GameRecord(game_id="earl/Nim-v0", params={"piles": [1, 2]}, seed=0, moves=moves)

    records = [record((1, 0)), record([1, 0])]
    assert records[0] == records[1]
    assert len({*records, record((1,))}) == 2
    assert pickle.loads(pickle.dumps(records[1])) == records[0]


def test_record_keeps_the_parameters_that_it_was_made_with():
    params = {"rows": 4}
    record = GameRecord(game_id="earl/ConnectFour-v0", params=params, seed=0)
    params["rows"] = 5
    assert record.params == {"rows": 4}


def test_numpy_values_are_written_as_plain_ones():
    params = {"rows": np.int64(5), "sizes": np.array([1, 2]), "name": "x"}
    record = GameRecord(game_id="earl/ConnectFour-v0", params=params, seed=3, moves=[2])
    tree = {"game_id": "earl/ConnectFour-v0", "seed": 3, "moves": [2]}
    assert json.loads(record.to_json()) == {
        **tree,
        "params": {"rows": 5, "sizes": [1, 2], "name": "x"},
    }
    with pytest.raises(ValueError, match=r"must be plain JSON, got \{1\}"):
        GameRecord(game_id="earl/ConnectFour-v0", params={"a": {1}}, seed=0).to_json()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{}", "needs game_id, params, seed, moves, this one lacks game_id, params, seed, moves"),
        ('{"game_id":"a/B-v0","seed":0,"params":{}}', "this one lacks moves"),
        ("[]", r"a record is a line of JSON with .*, got \[\]"),
        ("garbage", "a record is a line of JSON with .*, got 'garbage'"),
        ("", "a record is a line of JSON with .*, got ''"),
        ('{"game_id":5,"seed":0,"params":{},"moves":[]}', "game_id of a record must be str, got 5"),
        ('{"game_id":"a/B-v0","seed":0,"params":[],"moves":[]}', "params of a record must be dict"),
        ('{"game_id":"a/B-v0","seed":0,"params":{},"moves":"1"}', "moves of a record must be list"),
        ('{"game_id":"a/B-v0","seed":1.5,"params":{},"moves":[]}', "seed of a record must be int"),
        ('{"game_id":"a/B-v0","seed":-1,"params":{},"moves":[]}', "seed must be >= 0, got -1"),
    ],
)
def test_what_is_no_record_is_refused_with_what_it_lacks(line, message):
    with pytest.raises(ValueError, match=message):
        GameRecord.from_json(line)


def test_values_are_integers_of_any_kind_and_nothing_else():
    # In a process of its own, where no type checker of the test run comes first.
    code = """
import numpy as np
import earl_envs

record = earl_envs.GameRecord(
    game_id="earl/Nim-v0", seed=np.int64(3), moves=[np.int64(1), np.int8(0)]
)
assert earl_envs.GameRecord.from_json(record.to_json()) == record
assert [type(number) for number in (record.seed, *record.moves)] == [int] * 3
assert earl_envs.GameRecord(game_id="earl/Nim-v0", seed=3, moves=np.array([1, 0])) == record

for seed, moves in ((0, (1.5,)), (0, (None,)), (0, (True,)), (0, "12"), (0.5, ()), (True, ())):
    try:
        earl_envs.GameRecord(game_id="earl/Nim-v0", seed=seed, moves=moves)
    except ValueError:
        continue
    raise AssertionError((seed, moves))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
