"""Simulated pipelines in words and columns."""

from math import inf
from types import MappingProxyType

from earl_trainer.cli.async_table import describe_forecast, describe_paper, format_eta
from earl_trainer.planning.figures import PipelineFigures
from earl_trainer.planning.lengths import LogNormalLengths
from earl_trainer.planning.model import PipelineModel
from earl_trainer.planning.replays import Replay, Speedup

MODEL = PipelineModel(
    lengths=LogNormalLengths(median_tokens=100, tail_ratio=1, max_tokens=100),
    batch_groups=4,
    group_size=2,
    num_rollout_devices=3,
    num_training_devices=2,
    slots_per_device=10,
    decode_s=0.010,
    decode_s_per_sequence=0.001,
    training_s_per_token=0.005,
)


def figures(rate):
    return PipelineFigures(
        trained_tokens_per_s=rate,
        generated_tokens_per_s=rate,
        staleness=MappingProxyType({0: 3, 5: 1}),
        rollout_idle_share=0.25,
        training_idle_share=0.5,
        sequences_per_device=7.25,
    )


def rows_of(text):
    return {line.split("  ")[0]: line.split() for line in text.splitlines() if line}


def test_each_eta_is_set_against_both_ways_of_running_synchronously():
    text = describe_forecast(
        MODEL, {2: figures(1500.0), inf: figures(3000.0)},
        synchronous=figures(1000.0), shared=figures(2000.0),
    )  # fmt: skip
    rows = rows_of(text)
    assert rows["2"] == ["2", "1,500", "1.50", "0.75", "1.25", "5", "25.0%", "50.0%", "7.2"]
    assert rows["inf"][1:4] == ["3,000", "3.00", "1.50"]
    assert "3 rollout and 2 training devices, 4 x 2 sequences of 100 tokens a step" in text
    # 30 slots at 20 ms a token; 5 ms a token on each of two devices.
    assert "generation 1,500 tokens/s with all slots in use, training 400." in text
    assert "2,000 tokens/s." in text


def test_the_paper_stands_beside_what_was_simulated():
    replay = Replay(eta=4, figures=figures(1100.0), published_tokens_per_s=1000.0, fitted=False)
    fitted = Replay(eta=0, figures=figures(500.0), published_tokens_per_s=500.0, fitted=True)
    speedup = Speedup(
        name="small", num_devices=8, over_same_split=3.0, over_all_devices=2.0, published=2.5
    )
    unpublished = Speedup(
        name="large", num_devices=512, over_same_split=4.0, over_all_devices=1.5, published=None
    )
    text = describe_paper((fitted, replay), (), (speedup,), (unpublished,))
    rows = rows_of(text)
    assert rows["4"][:5] == ["4", "1,000", "1,100", "+10.0%", "predicted"]
    assert rows["0"][3:5] == ["+0.0%", "fitted"]
    assert rows["small"] == ["small", "8", "3.00", "2.00", "2.50"]
    assert rows["large"] == ["large", "512", "4.00", "1.50"]


def test_eta_is_written_as_it_is_given():
    assert [format_eta(eta) for eta in (0, 16, inf)] == ["0", "16", "inf"]
