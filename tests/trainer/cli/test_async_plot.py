"""The picture of simulated pipelines."""

from math import inf
from types import MappingProxyType

import pytest
from earl_trainer.cli.async_plot import draw_async
from earl_trainer.planning.figures import PipelineFigures


@pytest.fixture(autouse=True)
def words_stay_words(monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")


def figures(rate, staleness):
    return PipelineFigures(
        trained_tokens_per_s=rate,
        generated_tokens_per_s=rate,
        staleness=MappingProxyType({0: 1, staleness: 1}),
        rollout_idle_share=0.25,
        training_idle_share=0.5,
        sequences_per_device=7.25,
    )


FIGURES = {0: figures(100.0, 0), 2: figures(250.0, 3), inf: figures(300.0, 9)}


def draw(tmp_path, **changes):
    target = tmp_path / "plan.svg"
    draw_async(FIGURES, target, **{"lines": {}, "points": {}, **changes})
    return target.read_text()


def test_each_eta_and_its_staleness_are_named(tmp_path):
    picture = draw(tmp_path)
    for words in (">inf<", "0.0 (0)<", "1.5 (3)<", "4.5 (9)<", "training devices idle<"):
        assert words in picture, words
    assert "published" not in picture


def test_what_it_is_compared_with_is_drawn(tmp_path):
    assert "published<" in draw(tmp_path, points={0: 90.0, inf: 310.0})
    assert "synchronous<" in draw(tmp_path, lines={"synchronous": 120.0})


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot write the picture"):
        draw_async(FIGURES, tmp_path / "missing" / "plan.png", lines={}, points={})
