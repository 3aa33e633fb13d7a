"""Putting a run together."""

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


def test_the_engines_capacity_is_what_the_memory_model_gives(tmp_path, small_config, open_run):
    run = open_run(small_config({"selector": {"memory_bytes": 2_000_000}}), tmp_path)
    run.tracker.close()
    # Two layers of keys and values of width 32 in float32; the weights are stored once.
    kv_bytes = 2 * 2 * 32 * 4
    weights_bytes = 4 * run.model.num_parameters()
    assert run.engine.capacity_tokens == (2_000_000 - weights_bytes) // kv_bytes
    with pytest.raises(ValueError, match=r"^selector: no tp .* holds one context of 256 tokens"):
        open_run(small_config({"selector": {"memory_bytes": 150_000}}), tmp_path / "small")


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


def test_the_selector_knows_how_many_episodes_the_first_step_plays(
    tmp_path, small_config, open_run
):
    run = open_run(small_config({"rollout_workers": 3}), tmp_path)
    run.tracker.close()
    # The first of three workers' 16 tables, each with the context of a whole game.
    assert run.selector.num_responses == 6
    choice = run.decide(16)
    assert choice.decision.forecast_tokens == 6 * run.selector.first_context_tokens
    assert 40 < run.selector.first_context_tokens < 100
    assert choice.switch is None
    assert choice.share_tokens is None
