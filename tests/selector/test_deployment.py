from dataclasses import dataclass
from math import inf

import pytest
from earl_selector import Deployment, DeviceSpec, Fleet
from hypothesis import given
from hypothesis import strategies as st


@dataclass(frozen=True)
class Shelf:
    """100 tokens per engine at degree 1 and 250 at 2."""

    device: DeviceSpec

    def check_degree(self, tp: int) -> None:
        assert tp in (1, 2)

    def capacity_tokens(self, tp: int) -> int:
        return {1: 100, 2: 250}[tp]

    def required_memory_bytes(self, tp: int, num_tokens: int) -> int:
        raise AssertionError((tp, num_tokens))


@dataclass(frozen=True)
class PerResponse:
    """A token/s per device and response: the rate tells how many an engine was asked to run."""

    def tokens_per_s_per_device(self, tp: int, num_responses: int, context_tokens: int) -> float:
        return 0.0 if context_tokens > 50 else float(num_responses)


def fleet_of(deployment, num_devices=4):
    memory = Shelf(DeviceSpec.cpu(1))
    return Fleet(memory=memory, num_devices=num_devices, deployment=deployment)


@pytest.mark.parametrize(
    ("deployment", "engines", "capacities", "at_once"),
    [
        (Deployment.REPLICAS, [4, 2], [100, 250], [3, 8]),
        # 100 // 30 = 3 by each of four engines, not 400 // 30.
        (Deployment.SHARING, [4, 2], [400, 500], [12, 16]),
        (Deployment.SINGLE, [1, 1], [100, 250], [3, 8]),
    ],
)
def test_room_is_that_of_the_engines_that_share_a_load(deployment, engines, capacities, at_once):
    fleet = fleet_of(deployment)
    assert [fleet.num_engines(tp) for tp in (1, 2)] == engines
    assert [fleet.capacity_tokens(tp) for tp in (1, 2)] == capacities
    assert [fleet.max_responses(tp, 30) for tp in (1, 2)] == at_once


def test_a_load_is_held_up_to_the_last_token():
    fleet = fleet_of(Deployment.SHARING)
    assert fleet.holding_degrees((1, 2), num_tokens=400) == (1, 2)
    assert fleet.holding_degrees((1, 2), num_tokens=401) == (2,)
    assert fleet.holding_degrees((1, 2), num_tokens=501) == ()


@pytest.mark.parametrize(
    ("deployment", "tp", "seconds"),
    [
        # Four devices at 10 tokens/s: a fourth of the work of the four engines is one report's.
        (Deployment.REPLICAS, 1, 10 * 20 / (4 * 10)),
        # Of 10 responses the fullest of four engines has 3, and of two 5.
        (Deployment.SHARING, 1, 3 * 20 / (1 * 3)),
        (Deployment.SHARING, 2, 5 * 20 / (2 * 5)),
        (Deployment.SINGLE, 1, 10 * 20 / (1 * 10)),
        (Deployment.SINGLE, 2, 10 * 20 / (2 * 10)),
    ],
)
def test_rollout_ends_with_the_fullest_engine(deployment, tp, seconds):
    predicted_s = fleet_of(deployment).predict_rollout_s(
        PerResponse(), tp, num_responses=10, context_tokens=20
    )
    assert predicted_s == pytest.approx(seconds)


def test_context_that_does_not_run_takes_forever():
    for deployment in Deployment:
        predicted_s = fleet_of(deployment).predict_rollout_s(
            PerResponse(), 1, num_responses=10, context_tokens=51
        )
        assert predicted_s == inf


@given(st.integers(1, 8), st.sampled_from([1, 2]), st.integers(1, 50))
def test_responses_that_divide_evenly_take_their_tokens_over_the_speed_of_all_devices(
    num_each, tp, context_tokens
):
    fleet = fleet_of(Deployment.SHARING)
    num_responses = num_each * fleet.num_engines(tp)
    seconds = fleet.predict_rollout_s(
        PerResponse(), tp, num_responses=num_responses, context_tokens=context_tokens
    )
    assert seconds == pytest.approx(num_responses * context_tokens / (4 * num_each))
