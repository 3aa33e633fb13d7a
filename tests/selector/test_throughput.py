from dataclasses import dataclass
from math import inf

import pytest
from earl_selector import DEVICE_SPECS, MODEL_SHAPES, MemoryModel
from earl_selector.roofline import RooflineThroughput
from earl_selector.throughput import ThroughputModel, UnmeasuredThroughput, predict_rollout_s

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["qwen2.5-72b"],
    device=DEVICE_SPECS["h100-80gb"],
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=0.9,
    reserve_bytes=3 * 10**9,
)
CAPACITY_4, CAPACITY_8 = 452_803, 1_349_362
UNMEASURED = UnmeasuredThroughput(memory=MEMORY)


@dataclass(frozen=True)
class Constant:
    rate: float

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        return self.rate


def predict(rate):
    return predict_rollout_s(Constant(rate), 4, num_responses=10, context_tokens=400, num_devices=8)


def test_rollout_takes_its_tokens_over_the_speed_of_all_devices():
    assert predict(5.0) == 10 * 400 / (8 * 5.0)


def test_rollout_that_cannot_run_takes_forever():
    assert predict(0.0) == inf


def test_analytic_and_unmeasured_models_are_throughput_models():
    assert isinstance(UNMEASURED, ThroughputModel)
    assert isinstance(RooflineThroughput(memory=MEMORY), ThroughputModel)


def test_unmeasured_doubling_costs_a_fifth_per_device():
    slow, fast = [UNMEASURED.tokens_per_s_per_device(tp, 32, 1024) for tp in (8, 4)]
    assert slow / fast == pytest.approx(2 ** (-1 / 3))


@pytest.mark.parametrize("num_responses", [28, 56])
def test_unmeasured_responses_run_in_waves_beyond_the_capacity(num_responses):
    # Of 16,384 tokens 27 fit at tp 4.
    assert CAPACITY_4 // 16_384 == 27
    holding = UNMEASURED.tokens_per_s_per_device(4, 27, 16_384)
    num_waves = -(-num_responses // 27)
    queueing = UNMEASURED.tokens_per_s_per_device(4, num_responses, 16_384)
    assert queueing == pytest.approx(holding / num_waves)
    assert queueing < UNMEASURED.tokens_per_s_per_device(8, num_responses, 16_384)


def test_unmeasured_context_that_does_not_fit_does_not_run():
    assert UNMEASURED.tokens_per_s_per_device(4, 1, CAPACITY_4) > 0.0
    assert UNMEASURED.tokens_per_s_per_device(4, 1, CAPACITY_4 + 1) == 0.0
    assert UNMEASURED.tokens_per_s_per_device(8, 1, CAPACITY_8 + 1) == 0.0
