"""A degree is fast only while it cuts nothing."""

import pytest
from earl_selector import MODEL_SHAPES, DeviceSpec, MemoryModel
from earl_trainer.rollout.whole_contexts import WholeContextThroughput

MEMORY = MemoryModel(
    shape=MODEL_SHAPES["smollm2-135m"],
    device=DeviceSpec.cpu(400 * 2**20),
    bytes_per_parameter=2,
    bytes_per_kv_value=2,
    utilisation=1.0,
    reserve_bytes=0,
)


class Slowing:
    """A third of the speed at degree 3."""

    def tokens_per_s_per_device(self, tp, num_responses, context_tokens):
        return 90.0 / tp


@pytest.fixture
def rate():
    throughput = WholeContextThroughput(throughput=Slowing(), memory=MEMORY)
    return throughput.tokens_per_s_per_device


def test_up_to_the_capacity_the_speed_is_as_measured(rate):
    small, large = MEMORY.capacity_tokens(1), MEMORY.capacity_tokens(3)
    assert small < large
    assert rate(1, 1, small) == 90.0
    assert rate(3, 1, large) == 30.0
    assert rate(3, 0, 0) == 30.0


def test_beyond_it_any_degree_that_cuts_nothing_is_faster_and_else_the_one_that_cuts_least(rate):
    small, large = MEMORY.capacity_tokens(1), MEMORY.capacity_tokens(3)
    assert 0.0 < rate(1, 1, small + 1) < rate(3, 1, small + 1) == 30.0
    assert 0.0 < rate(1, 2, large) < rate(3, 2, large) < 1.0
