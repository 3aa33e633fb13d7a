"""A run's folder."""

import pytest
import wandb
from earl_trainer.overrides import read_run_config


def test_the_resolved_config_is_kept_in_the_folder_and_read_back(tmp_path, small_config, open_run):
    config = small_config({"seed": 11, "selector": {"memory_bytes": 123456789}})
    open_run(config, tmp_path / "deep" / "run").tracker.close()
    assert read_run_config(tmp_path / "deep" / "run") == config


def test_a_folder_with_a_run_is_not_overwritten(tmp_path, small_config, open_run):
    open_run(small_config(), tmp_path).tracker.close()
    with pytest.raises(ValueError, match="already holds a run; go on with --resume"):
        open_run(small_config(), tmp_path)


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(tmp_path, small_config, open_run):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="cannot write the run folder") as refusal:
        open_run(small_config(), tmp_path / "file" / "run")
    assert "\n" not in str(refusal.value)


def test_resuming_where_no_run_is_names_the_folder(tmp_path, small_config, open_run):
    with pytest.raises(ValueError, match="is no run folder"):
        open_run(small_config(), tmp_path / "nothing", resume=True)


@pytest.mark.parametrize("existed", [True, False])
def test_a_run_that_wandb_refuses_leaves_nothing_behind(
    tmp_path, small_config, open_run, monkeypatch, existed
):
    def refuse(**options):
        raise wandb.Error("no such\nentity")

    monkeypatch.setattr(wandb, "init", refuse)
    folder = tmp_path / "run"
    if existed:
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
    config = small_config({"tracking": {"wandb": "offline"}})
    with pytest.raises(ValueError, match=r"^cannot log to W&B offline: no such entity$"):
        open_run(config, folder)
    assert folder.exists() == existed
    assert not (folder / "config.yaml").exists()
    assert not existed or (folder / "notes.txt").read_text() == "mine"
