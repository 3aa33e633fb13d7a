"""The picture of a plan."""

from dataclasses import replace

import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, MemoryModel
from earl_selector.roofline import RooflineThroughput
from earl_selector.tp_plan import TpPlan
from earl_trainer.cli.tp_plot import draw_plan

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)
PLAN = TpPlan(
    memory=MEMORY,
    throughput=RooflineThroughput(memory=MEMORY),
    degrees=(1, 4, 8),
    num_responses=32,
    contexts=(1024, 65_536),
)


def lines_of(plan, tmp_path):
    """Draw as text and return what is written in the picture, with the paths there are."""
    target = tmp_path / "plan.svg"
    draw_plan(plan, target)
    return target.read_text()


@pytest.fixture(autouse=True)
def words_stay_words(monkeypatch):
    mpl = pytest.importorskip("matplotlib")
    monkeypatch.setitem(mpl.rcParams, "svg.fonttype", "none")


def test_the_picture_names_degrees_crossover_and_device(tmp_path):
    picture = lines_of(PLAN, tmp_path)
    for words in ("tp 4<", "tp 8<", "tp 8 faster", "from 14,151", "qwen2.5-72b on h100-80gb"):
        assert words in picture, words


def test_a_degree_that_holds_no_cache_is_not_drawn(tmp_path):
    assert "tp 1<" not in lines_of(PLAN, tmp_path)


def test_without_a_crossover_none_is_marked(tmp_path):
    assert "faster" not in lines_of(replace(PLAN, contexts=(1024, 2048)), tmp_path)


def test_a_single_context_is_drawn(tmp_path):
    draw_plan(replace(PLAN, contexts=(4096,)), tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot write the picture"):
        draw_plan(PLAN, tmp_path / "missing" / "plan.png")
