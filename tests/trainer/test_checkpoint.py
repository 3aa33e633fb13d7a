import subprocess
import sys
from pathlib import Path

import pytest
from earl_trainer.checkpoint import CheckpointStore

FILES = ("weights", "model/config", "model/more")

# Saves a checkpoint once per operation on the folder, each time in a copy of its own, and kills the
# saving process right before that operation; the last one is left to finish.
KILLER = """
import os, shutil, signal, sys
from pathlib import Path
from earl_trainer.checkpoint import CheckpointStore

base, step = Path(sys.argv[1]), int(sys.argv[2])

def write(folder):
    (folder / "model").mkdir()
    for name in sys.argv[3:]:
        (folder / name).write_text("new")

def save(folder, kill_at):
    seen = 0
    def count(event, args):
        nonlocal seen
        if event in {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir"}:
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(count)
    CheckpointStore(folder, keep=1).save(step, write)

kill_at, status = 0, signal.SIGKILL
while status == signal.SIGKILL:
    kill_at += 1
    folder = base / f"killed-{kill_at:03d}"
    shutil.copytree(base / "before", folder)
    child = os.fork()
    if child == 0:
        save(folder, kill_at)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
assert status == 0, status
"""


def writing(text):
    def write(folder):
        (folder / "model").mkdir()
        for name in FILES:
            (folder / name).write_text(text)

    return write


def content(folder):
    """What a whole checkpoint says; fails if a file is missing or the files disagree."""
    (text,) = {(folder / name).read_text() for name in FILES}
    return text


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("step", [2, 1], ids=["a later step", "the same step again"])
def test_a_save_killed_at_any_operation_leaves_a_whole_checkpoint_and_no_litter(tmp_path, step):
    CheckpointStore(tmp_path / "before", keep=1).save(1, writing("old"))
    subprocess.run(
        [sys.executable, "-c", KILLER, str(tmp_path), str(step), *FILES], check=True, timeout=60
    )
    survivors = []
    for folder in sorted(tmp_path.glob("killed-*")):
        store, new = CheckpointStore(folder, keep=1), folder / f"step-{step:06d}"
        survivors.append(content(store.latest()))
        in_place = new.is_dir() and content(new) == "new"
        assert survivors[-1] == ("new" if in_place else "old")
        store.save(step, writing("again"))
        assert names(folder) == [new.name]
        assert content(store.latest()) == "again"
    # The files of `write`, the renames and the deletions all count, and once the new one is there
    # it stays; the last save was left to finish.
    assert len(survivors) > 15
    assert survivors == sorted(survivors, reverse=True)
    assert (survivors[0], survivors[-1]) == ("old", "new")


def test_a_save_that_raises_leaves_the_previous_checkpoint(tmp_path):
    store = CheckpointStore(tmp_path, keep=1)
    store.save(1, writing("old"))

    def fail(folder):
        (folder / "weights").write_text("new")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.save(2, fail)
    assert content(store.latest()) == "old"
    store.save(3, writing("new"))
    assert names(tmp_path) == ["step-000003"]


def test_the_newest_are_kept_and_the_older_ones_deleted(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (1, 5, 30, 31):
        path = store.save(step, writing(f"step {step}"))
        assert path == store.latest() == tmp_path / f"step-{step:06d}"
    assert names(tmp_path) == ["step-000030", "step-000031"]
    assert [content(tmp_path / name) for name in names(tmp_path)] == ["step 30", "step 31"]


def test_saving_a_step_again_replaces_it_and_costs_no_other_checkpoint(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step, text in ((1, "one"), (2, "two"), (2, "two again")):
        store.save(step, writing(text))
    assert names(tmp_path) == ["step-000001", "step-000002"]
    assert content(store.latest()) == "two again"


def test_steps_are_ordered_as_numbers(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    for step in (999_999, 1_000_000):
        store.save(step, writing(str(step)))
    assert store.latest() == tmp_path / "step-1000000"


def test_a_folder_without_its_mark_is_no_checkpoint(tmp_path):
    store = CheckpointStore(tmp_path, keep=2)
    assert store.latest() is None
    store.save(1, writing("old"))
    writing("unmarked")(_made(tmp_path / "step-000002"))
    assert store.latest() == tmp_path / "step-000001"


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_whole_checkpoints_are_told_by_their_step(tmp_path):
    store = CheckpointStore(tmp_path, keep=3)
    for step in (20, 3):
        store.save(step, lambda folder: None)
    (tmp_path / "step-000040").mkdir()
    (tmp_path / "step-000003").rename(tmp_path / "step-000003.replaced")

    assert list(store.complete().items()) == [
        (3, tmp_path / "step-000003.replaced"),
        (20, tmp_path / "step-000020"),
    ]


def test_checkpoints_of_later_steps_are_dropped(tmp_path):
    store = CheckpointStore(tmp_path, keep=9)
    for step in (10, 20, 30):
        store.save(step, lambda folder: None)
    store.drop_after(20)
    assert list(store.complete()) == [10, 20]
    store.drop_after(5)
    assert store.latest() is None
    assert list(tmp_path.iterdir()) == []
