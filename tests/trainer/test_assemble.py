"""Putting a run together."""

import pytest


def test_the_engines_capacity_is_what_the_memory_model_gives(tmp_path, small_config, open_run):
    run = open_run(small_config({"selector": {"memory_bytes": 2_000_000}}), tmp_path)
    run.tracker.close()
    # Two layers of keys and values of width 32 in float32; the weights are stored once.
    kv_bytes = 2 * 2 * 32 * 4
    weights_bytes = 4 * run.model.num_parameters()
    assert run.engine.capacity_tokens == (2_000_000 - weights_bytes) // kv_bytes
    with pytest.raises(ValueError, match=r"^selector: no tp .* holds one context of 256 tokens"):
        open_run(small_config({"selector": {"memory_bytes": 150_000}}), tmp_path / "small")


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
