import sys

import pytest
from earl_trainer.preference.arrow import read_rows
from earl_trainer.preference.records import read_records

ROWS = [{"prompt": "a", "messages": [{"role": "user", "content": "b"}]}]


def write_stream(path, rows):
    """Write what `save_to_disk` of the library `datasets` does."""
    arrow = pytest.importorskip("pyarrow")
    path.parent.mkdir(parents=True, exist_ok=True)
    table = arrow.Table.from_pylist(rows)
    with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_stream(file, table.schema) as stream:
        stream.write_table(table)


def values(folder):
    return [record.values for record in read_records(folder)]


def test_parquet_is_read(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.Table.from_pylist(ROWS), tmp_path / "train.parquet")
    assert values(tmp_path) == ROWS


def test_a_saved_data_set_is_read_without_what_was_computed_from_it(tmp_path):
    for number in (0, 1):
        write_stream(tmp_path / f"data-0000{number}-of-00002.arrow", [{"x": number}])
    write_stream(tmp_path / "cache-0123.arrow", [{"x": 9}])
    (tmp_path / "state.json").write_text("{}")
    assert values(tmp_path) == [{"x": 0}, {"x": 1}]


def test_of_saved_splits_the_one_for_training_is_read(tmp_path):
    for split, x in (("test", 1), ("train", 2)):
        write_stream(tmp_path / split / "data-00000-of-00001.arrow", [{"x": x}])
    assert values(tmp_path) == [{"x": 2}]
    assert values(tmp_path / "test") == [{"x": 1}]


def test_a_broken_table_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    for suffix in ("parquet", "arrow"):
        file = tmp_path / f"a.{suffix}"
        file.write_bytes(b"nothing of the kind")
        with pytest.raises(ValueError, match=rf"cannot read .*a\.{suffix}"):
            read_rows(file)


def test_without_the_library_its_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ValueError, match=r"needs pyarrow .*: install earl-trainer\[datasets\]"):
        read_rows(tmp_path / "data-00000-of-00001.arrow")
