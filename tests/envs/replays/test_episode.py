"""What is kept of an episode comes back whole."""

import json

import pytest
from earl_envs import EndReason, GameRecord
from earl_envs.evaluation.match import play_match
from earl_envs.replays.episode import EpisodeRecord


def record(**changes):
    values = {
        "game": GameRecord(game_id="earl/TicTacToe-v0", seed=3, moves=(0, 3, 1, 4, 2)),
        "players": ("alice", "bob"),
        "returns": (1.0, -1.0),
        "end_reason": EndReason.FINISHED,
        "replies": ("I take [1].", "[4]\n…", "[2]", "[5]", "[3]"),
    }
    return EpisodeRecord(**(values | changes))


def test_an_episode_survives_the_trip_through_json_as_one_line():
    episode = record(detail='said "no"\n', end_reason=EndReason.ILLEGAL_MOVE)
    line = episode.to_json()

    assert "\n" not in line
    assert EpisodeRecord.from_json(line) == episode
    assert EpisodeRecord.from_json(line).end_reason is EndReason.ILLEGAL_MOVE
    assert json.loads(line)["game"]["moves"] == [0, 3, 1, 4, 2]


def test_an_episode_replays_to_the_state_it_ended_in():
    positions = EpisodeRecord.from_json(record().to_json()).positions()

    assert len(positions) == 6
    assert positions[-1].state == (0b111, 0b11000)
    assert positions[-1].returns == (1.0, -1.0)


def test_parameters_of_the_game_are_kept():
    game = GameRecord(game_id="earl/ConnectFour-v0", params={"rows": 4}, seed=0, moves=(1,))
    assert EpisodeRecord.from_json(record(game=game).to_json()).game == game


def test_the_episodes_of_a_match_replay_to_their_returns():
    for episode in play_match(
        "earl/ConnectFour-v0", "random", "first", num_games=6, seed=0
    ).episodes:
        again = EpisodeRecord.from_json(episode.to_json())
        assert again == episode
        assert again.positions()[-1].returns == tuple(episode.returns)


def test_a_score_that_is_no_number_is_not_written():
    with pytest.raises(ValueError, match="JSON"):
        record(returns=(float("nan"), 0.0)).to_json()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("players", "ab"),
        ("players", ["a", 1]),
        ("players", ["a"]),
        ("returns", [1.0, "0"]),
        ("returns", [True, 0.0]),
        ("returns", [float("nan"), 0.0]),
        ("returns", [float("inf"), 0.0]),
        ("returns", None),
        ("end_reason", 3),
        ("end_reason", "bored"),
        ("detail", None),
        ("replies", "[1]"),
        ("replies", [1]),
        ("game", [1]),
        ("game", {"game_id": "earl/TicTacToe-v0", "params": {}, "seed": "3", "moves": []}),
    ],
)
def test_fields_of_another_kind_are_refused(field, value):
    tree = json.loads(record().to_json())
    with pytest.raises(ValueError, match=r"an episode|EndReason|a record"):
        EpisodeRecord.from_json(json.dumps(tree | {field: value}))
    del tree[field]
    with pytest.raises(ValueError, match=f"{field} of an episode must be"):
        EpisodeRecord.from_json(json.dumps(tree))


def test_parameters_that_are_no_numbers_are_not_written():
    game = GameRecord(game_id="earl/ConnectFour-v0", params={"rows": float("nan")}, seed=0)
    with pytest.raises(ValueError, match="JSON"):
        record(game=game).to_json()
