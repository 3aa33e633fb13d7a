"""What a pipeline consists of, and what follows from it without a simulation."""

from dataclasses import replace

import pytest
from earl_trainer.planning.lengths import LogNormalLengths
from earl_trainer.planning.model import PipelineModel

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


def test_rates_follow_from_the_speeds():
    # 15 sequences are 5 on each device; 30 slots at 20 ms a token.
    assert MODEL.token_s(15) == pytest.approx(0.015)
    assert MODEL.max_generated_tokens_per_s == pytest.approx(30 / 0.020)
    assert MODEL.batch_tokens == 800
    assert MODEL.training_s == pytest.approx(800 * 0.005 / 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_groups": 0}, "batch_groups must be >= 1, got 0"),
        ({"num_training_devices": 0}, "num_training_devices must be >= 1, got 0"),
        ({"decode_s": 0.0}, "decode_s must be > 0, got 0.0"),
        ({"training_s_per_token": float("inf")}, "training_s_per_token must be > 0, got inf"),
        ({"decode_s_per_sequence": -1.0}, "decode_s_per_sequence must be >= 0, got -1.0"),
        ({"publication_s": float("nan")}, "publication_s must be >= 0, got nan"),
        (
            {"group_size": 31},
            "a group of 31 sequences needs as many slots, but 3 rollout devices have 30",
        ),
    ],
)
def test_what_can_never_run_is_refused_with_the_numbers(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(MODEL, **changes)
