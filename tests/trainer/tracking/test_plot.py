"""The picture of a run is drawn from its rows, whatever they hold."""

import json
from dataclasses import replace

import pytest
from earl_envs import EndReason
from earl_trainer.evaluation.match import MatchResult
from earl_trainer.tracking.plot import plot_run
from matplotlib.image import imread


def panels_changed(one, other):
    """Indices of the panels, row by row, in which two pictures differ."""
    changed = (one != other).any(-1)
    height, width = changed.shape[0] / 2, changed.shape[1] / 4
    return {
        4 * int(row // height) + int(column // width)
        for row, column in zip(*changed.nonzero(), strict=True)
    }


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
        make_record(1, phase="warmup", **{"reward/mean": -0.7}),
        make_record(2, **{"reward/mean": 0.5}),
        make_record(3, **{"reward/mean": 0.6}),
    ]
    picture = draw(records, {"before": (2, match)})
    other_row = draw([*records[:2], make_record(2), records[3]], {"before": (2, match)})
    other_match = draw(records, {"before": (2, replace(match, win_rate=0.6, win_rate_low=0.5))})

    assert picture.shape == (880, 1870, 4)
    assert panels_changed(picture, other_row) == {1}, "the reward is the second panel"
    assert panels_changed(picture, other_match) == {0}, "matches are in the first panel"


def test_cut_episodes_have_a_panel_of_their_own(draw, make_record):
    steps = [make_record(step) for step in range(4)]
    cut = make_record(3, **{"context/truncated_share": 0.9, "context/cut_share": 0.8})

    assert panels_changed(draw(steps, {}), draw([*steps[:3], cut], {})) == {3}


@pytest.mark.parametrize("capacity", [20_000.0, 2_000_000.0])
def test_a_change_of_degree_shows_among_the_resident_tokens(draw, make_record, capacity):
    steps = [make_record(step, **{"selector/capacity_tokens": capacity}) for step in range(4)]
    doubled = {"selector/tp": 2.0, "selector/capacity_tokens": capacity}
    fuller = {"context/resident_tokens": 13_000.0, "selector/capacity_tokens": capacity}
    picture = draw(steps, {})

    assert panels_changed(picture, draw([*steps[:3], make_record(3, **doubled)], {})) == {5}
    assert panels_changed(picture, draw([*steps[:3], make_record(3, **fuller)], {})) == {5}


def test_the_label_of_the_last_match_stays_in_its_panel(draw, make_record, match):
    steps = [make_record(step) for step in range(9)]
    picture = draw(steps, {"before": (4, match), "after": (9, match)})
    renamed = draw(steps, {"before": (4, match), "and a long time after": (9, match)})

    assert panels_changed(picture, renamed) == {0}


@pytest.mark.parametrize("won", [True, False])
def test_a_match_that_was_won_or_lost_throughout_is_drawn(draw, make_record, make_summary, won):
    episodes = [make_summary(outcome=1.0 if won else -1.0, end_reason=EndReason.FINISHED)] * 400
    result = MatchResult.of(episodes)

    assert draw([make_record(0)], {"initial": (0, result)}).std() > 0


def test_a_run_without_steps_is_drawn(draw, match):
    assert draw([], {"initial": (0, match)}).std() > 0


def test_checkups_have_a_column_of_their_own(tmp_path, make_record, checkup):
    path, target = tmp_path / "metrics.jsonl", tmp_path / "run.png"
    record = make_record(0)
    step = {"step": 0, "phase": "rl", **record.metrics}

    def draw(*rows):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        plot_run(path, {}, title="a run", target=target)
        return imread(target)

    figures = checkup.figures()
    first = draw(step, {"step": 0, **figures}, {"step": 20, **figures})
    second = draw(step, {"step": 0, **figures}, {"step": 20, **figures, "checkup/elo": 9.0})
    changed = (first != second).any(-1).nonzero()
    assert min(changed[1]) > 0.78 * first.shape[1], "the last of five columns"
    assert min(changed[0]) > 0.48 * first.shape[0], "in the lower row"
