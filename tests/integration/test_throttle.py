"""Fewer episodes at once, and the same episodes."""

import json

import pytest
from earl_trainer.launch import run_to_end


@pytest.mark.slow
def test_a_throttled_run_plays_the_same_games_a_few_at_a_time(tmp_path, small_config, open_run):
    def decisions_and_rewards(policy):
        # Room for a few contexts of full length, beside the weights.
        sizing = open_run(small_config(), tmp_path / f"sizing-{policy}")
        memory, limit = sizing.selector.memory, sizing.config.rollout.max_context_tokens
        sizing.tracker.close()
        selector = {"policy": policy, "memory_bytes": memory.required_memory_bytes(1, 3 * limit)}
        run = open_run(small_config({"selector": selector}), tmp_path / policy)
        assert run_to_end(run) == 0
        lines = (tmp_path / policy / "metrics.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, lines) if "phase" in row]
        decisions = [json.loads(row["selector/decision"]) for row in rows]
        return decisions, [row["reward/mean"] for row in rows]

    throttled, rewards = decisions_and_rewards("throttle")
    assert throttled[0]["max_responses"] == 3
    assert {decision["reason"] for decision in throttled} == {"throttles"}
    assert all(decision["outcome"]["resident_tokens"] > 0 for decision in throttled)
    fixed, same = decisions_and_rewards("fixed")
    assert {decision["max_responses"] for decision in fixed} == {None}
    assert rewards == pytest.approx(same)
