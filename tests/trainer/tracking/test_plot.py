"""The picture of a run is drawn from its rows, whatever they hold."""

import json
from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.plot import plot_run
from matplotlib.image import imread


@pytest.fixture
def draw(tmp_path):
    def draw(records, evaluations):
        path = tmp_path / "metrics.jsonl"
        rows = [{"step": each.step, "phase": each.phase, **each.metrics} for each in records]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        plot_run(path, evaluations, title="a run", target=tmp_path / "run.png")
        return imread(tmp_path / "run.png")

    return draw


def test_the_rows_and_matches_are_in_the_picture(draw, make_record, match):
    records = [
        make_record(0, phase="warmup", without=("policy/kl", "rate/prepare_tokens_per_s")),
        make_record(1, phase="warmup"),
        make_record(2, **{"reward/mean": 0.5}),
        make_record(3),
    ]
    picture = draw(records, {"before": (2, match)})
    other_row = draw([*records[:2], make_record(2), records[3]], {"before": (2, match)})
    other_match = draw(records, {"before": (2, replace(match, win_rate=0.6, win_rate_low=0.5))})

    assert picture.shape == (880, 1430, 4)
    half, third = picture.shape[0] // 2, picture.shape[1] // 3
    changed = (picture != other_row).any(-1)
    assert changed[:half, 2 * third :].any(), "the reward is the third panel"
    assert not changed[half:].any()
    assert (picture != other_match).any(-1)[:half, :third].any(), "matches are in the first panel"


@pytest.mark.parametrize("won", [True, False])
def test_a_match_that_was_won_or_lost_throughout_is_drawn(draw, make_record, make_summary, won):
    episodes = [make_summary(outcome=1.0 if won else -1.0, end_reason=EndReason.FINISHED)] * 400
    result = MatchResult.of(episodes)

    assert draw([make_record(0)], {"initial": (0, result)}).std() > 0


def test_a_run_without_steps_is_drawn(draw, match):
    assert draw([], {"initial": (0, match)}).std() > 0
