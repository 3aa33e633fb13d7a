"""Contexts that do not fit the memory wait for one another, or are cut at equal shares of it."""

import pytest

GROWING = {
    "warmup": {"num_steps": 2},
    "rollout": {"games_per_episode": 3, "games_ramp_steps": 3},
    "learner": {"num_steps": 5},
}
SHARE_TOKENS = 60


@pytest.fixture
def rows_of(tmp_path, small_config, open_run, repeatable_rows):
    """Train with memory for so many tokens of each of a step's sixteen episodes."""
    from earl_trainer.launch import run_to_end

    def rows(overflow, share_tokens):
        sizing = open_run(small_config(GROWING), tmp_path / f"sizing-{overflow}-{share_tokens}")
        sizing.tracker.close()
        # Keys and values of two layers of width 32, in float32.
        kv_bytes = 16 * share_tokens * (2 * 2 * 32 * 4)
        config = small_config(
            GROWING,
            {
                "rollout": {"overflow": overflow},
                "selector": {
                    "memory_bytes": 4 * sizing.model.num_parameters() + kv_bytes,
                    "profile": "none",
                },
            },
        )
        folder = tmp_path / f"{overflow}-{share_tokens}"
        assert run_to_end(open_run(config, folder)) == 0
        return repeatable_rows(folder)

    return rows


@pytest.mark.slow
def test_equal_shares_cut_what_is_longer_and_say_how_much_was_wanted(rows_of):
    rows = rows_of("cut", SHARE_TOKENS)

    assert max(row["context/max_tokens"] for row in rows) <= SHARE_TOKENS
    # The games are untrained models' and short, so that three of them, and only they, are too long.
    assert rows[2]["game/games_per_episode"] == 1.0
    assert rows[-1]["game/games_per_episode"] == 3.0
    assert rows[-1]["context/cut_share"] > 0.2
    for row in rows:
        wanted, held = row["context/resident_tokens"], row["selector/capacity_tokens"]
        assert row["selector/queued"] == float(wanted > held)
        assert not row["context/cut_share"] or wanted > held


@pytest.mark.slow
def test_twice_the_memory_cuts_nothing_and_neither_does_waiting(rows_of):
    for overflow, share_tokens in (("cut", 5 * SHARE_TOKENS), ("queue", SHARE_TOKENS)):
        rows = rows_of(overflow, share_tokens)
        assert {row["context/cut_share"] for row in rows} == {0.0}
        assert max(row["context/max_tokens"] for row in rows) > SHARE_TOKENS
