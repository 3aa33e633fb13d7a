"""Files of episodes."""

import pytest
from earl_envs.evaluation.match import play_match
from earl_envs.replays.jsonl import read_episodes, write_episodes


@pytest.fixture(scope="module")
def episodes():
    return play_match("earl/TicTacToe-v0", "random", "first", num_games=6, seed=0).episodes


def test_what_is_written_in_parts_is_read_as_a_whole(tmp_path, episodes):
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, episodes[:2])
    write_episodes(path, episodes[2:])

    assert list(read_episodes(path)) == list(episodes)


def test_episodes_are_read_one_by_one(tmp_path, episodes):
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, episodes)
    path.write_text(path.read_text() + "nonsense\n")
    reader = read_episodes(path)

    assert [next(reader) for _ in episodes] == list(episodes)
    with pytest.raises(ValueError, match=r"line 7 of '.*episodes.jsonl' is no episode"):
        next(reader)


@pytest.mark.parametrize(
    "line", ["{}", "[]", '{"game": 3}', '{"game":{"game_id":"x","params":{},"seed":0,"moves":[]}}']
)
def test_a_line_that_is_no_episode_is_named(tmp_path, line):
    (tmp_path / "bad.jsonl").write_text(line)
    with pytest.raises(ValueError, match=r"line 1 of '.*bad.jsonl' is no episode") as refusal:
        list(read_episodes(tmp_path / "bad.jsonl"))
    assert "\n" not in str(refusal.value)


def test_a_line_of_a_training_run_is_sent_where_it_is_read(tmp_path):
    (tmp_path / "run.jsonl").write_text('{"game_id":"earl/TicTacToe-v0","games":[],"seat":0}\n')
    with pytest.raises(
        ValueError, match=r"line 1 of .* earl_trainer\.tracking\.episode_rows\.episode_records$"
    ):
        list(read_episodes(tmp_path / "run.jsonl"))
