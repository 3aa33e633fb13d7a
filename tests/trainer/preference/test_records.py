import json

import pytest
from earl_trainer.preference.records import read_records


def write(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_a_record_knows_its_line_whatever_is_blank_between(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('{"x": 1}\n\n{"x": "\u2028"}\n')
    records = read_records(file)
    assert [(record.number, record.values["x"]) for record in records] == [(1, 1), (3, "\u2028")]


def test_of_a_split_folder_only_training_files_are_read_in_the_order_of_their_names(tmp_path):
    write(tmp_path / "data" / "train-1.jsonl", {"x": 2})
    write(tmp_path / "data" / "train-0.jsonl", {"x": 1})
    write(tmp_path / "data" / "test-0.jsonl", {"x": 3})
    (tmp_path / "dataset_info.json").write_text("{}")
    assert [record.values["x"] for record in read_records(tmp_path)] == [1, 2]


def test_of_a_folder_that_is_not_split_all_files_are_read(tmp_path):
    write(tmp_path / "b.jsonl", {"x": 2})
    write(tmp_path / "a.jsonl", {"x": 1})
    assert [record.values["x"] for record in read_records(tmp_path)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"x": 1}\n{"x"\n', r"a\.jsonl, line 2: no JSON"),
        ("[1]\n", r"a\.jsonl, line 1: every line must be an object"),
    ],
)
def test_a_line_that_is_no_object_is_named(tmp_path, text, message):
    (tmp_path / "a.jsonl").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_records(tmp_path / "a.jsonl")


def test_what_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no file or folder"):
        read_records(tmp_path / "missing")
    (tmp_path / "a.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match="must be JSONL, Parquet or Arrow"):
        read_records(tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"holds no \.jsonl, \.parquet or \.arrow file"):
        read_records(tmp_path)
    (tmp_path / "latin.jsonl").write_bytes(b"\xff")
    with pytest.raises(ValueError, match="cannot read"):
        read_records(tmp_path / "latin.jsonl")
