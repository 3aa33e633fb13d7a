"""Same seed, same run; the selector and the dispatcher take part in every step."""

import itertools
import json

import pytest
from earl_trainer.launch import run_to_end


def test_same_seed_gives_identical_metrics_and_another_seed_does_not(
    tmp_path, small_config, open_run, repeatable_rows
):
    for name, seed in (("one", 3), ("same", 3), ("other", 4)):
        assert run_to_end(open_run(small_config({"seed": seed}), tmp_path / name)) == 0
    assert repeatable_rows(tmp_path / "one") == repeatable_rows(tmp_path / "same")
    assert repeatable_rows(tmp_path / "one") != repeatable_rows(tmp_path / "other")


def test_every_step_reports_its_decision_and_its_transfer(
    tmp_path, small_config, open_run, repeatable_rows
):
    assert run_to_end(open_run(small_config(), tmp_path / "run")) == 0
    rows = repeatable_rows(tmp_path / "run")
    for earlier, row in itertools.pairwise(rows):
        assert row["selector/tp"] == 1
        # The forecast of a step is at least what the step before it held.
        assert row["selector/forecast_tokens"] >= earlier["context/resident_tokens"]
        assert row["dispatch/rows"] == 16
        assert row["dispatch/bytes_moved"] == row["dispatch/bytes_lower_bound"] == 0


def test_without_warmup_the_untrained_match_counts_as_the_one_before(
    tmp_path, small_config, open_run
):
    config = small_config({"warmup": {"num_steps": 0}})
    assert run_to_end(open_run(config, tmp_path / "run")) == 0
    evaluation = json.loads((tmp_path / "run" / "summary.json").read_text())["evaluation"]
    assert list(evaluation) == ["initial", "before", "after"]
    assert evaluation["initial"] == evaluation["before"]
    assert evaluation["after"]["games"] == 20


def test_a_learning_rate_of_zero_changes_nothing(tmp_path, small_config, open_run, repeatable_rows):
    config = small_config({"learner": {"lr": 0.0, "num_epochs": 2}, "warmup": {"num_steps": 0}})
    run = open_run(config, tmp_path / "run")
    weights = {name: value.clone() for name, value in run.model.state_dict().items()}
    assert run_to_end(run) == 0
    for row in repeatable_rows(tmp_path / "run"):
        assert row["policy/ratio"] == pytest.approx(1.0, abs=1e-5)
        assert row["policy/clip_fraction"] == 0.0
        assert row["policy/kl"] == pytest.approx(0.0, abs=1e-9)
        # The engine decodes with a cache, token by token; the learner scores whole rows.
        assert row["mismatch/max_logprob_difference"] < 1e-4
    for name, value in run.model.state_dict().items():
        assert value.equal(weights[name]), name
