"""Bundles of a real Ray cluster, whose GPUs are numbers only."""

import time

import pytest
from earl_trainer.asynchronous.placement import AsyncPlacement
from earl_trainer.asynchronous.ray_placement import ReservedPlace, own_address
from earl_trainer.types import RunFailedError

import ray  # isort: skip - after the module that says how it is to start its processes
from ray.util.placement_group import placement_group_table

pytestmark = pytest.mark.slow


class Where:
    def gpus(self):
        return [int(gpu) for gpu in ray.get_gpu_ids()]


@pytest.fixture(scope="module")
def cluster():
    # Two GPUs that exist in the books alone.
    assert not ray.is_initialized()
    ray.init(num_cpus=4, num_gpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def free_cpus(expected):
    """Wait until so many cores are free: Ray counts a little later."""
    deadline_s = time.monotonic() + 20.0
    while (free := ray.available_resources().get("CPU", 0)) != expected:
        assert time.monotonic() < deadline_s, free
        time.sleep(0.1)


def start(place, worker):
    return ray.remote(**place.options(worker))(Where).remote()


def test_cores_are_reserved_until_it_is_closed(cluster):
    place = ReservedPlace(AsyncPlacement(learner_cores=1, worker_cores=(1, 2)))
    free_cpus(0)
    assert place.options(1)["num_cpus"] == 2
    place.close()
    free_cpus(4)


def test_what_the_cluster_does_not_have_is_refused_in_time_and_given_back(cluster):
    start_s = time.monotonic()
    with pytest.raises(
        RunFailedError,
        match=r"within 1 s .* no place for the 1 cores .* and 2, 3 of the workers \(PACK\); 4 are",
    ) as caught:
        ReservedPlace(AsyncPlacement(learner_cores=1, worker_cores=(2, 3)), timeout_s=1.0)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - start_s < 10.0
    free_cpus(4)
    states = [group["state"] for group in placement_group_table().values()]
    assert set(states) == {"REMOVED"}


def test_the_gpu_of_the_learner_is_kept_from_the_worker(cluster):
    placement = AsyncPlacement(learner_cores=1, worker_cores=(1,))
    place = ReservedPlace(placement, learner_gpu=0)
    assert ray.get(start(place, 0).gpus.remote(), timeout=60.0) == [1]
    place.close()
    free_cpus(4)
    with pytest.raises(RunFailedError, match=r"learns computes on GPU 1, but .* only GPU 0 left"):
        ReservedPlace(placement, learner_gpu=1)
    free_cpus(4)
    # Without a learner's own, the worker has the first.
    place = ReservedPlace(placement)
    assert ray.get(start(place, 0).gpus.remote(), timeout=60.0) == [0]
    place.close()
    free_cpus(4)


def test_colocated_workers_share_a_gpu_and_reserve_no_core(cluster):
    place = ReservedPlace(
        AsyncPlacement(learner_cores=4, worker_cores=(4, 4), strategy="STRICT_PACK", shared=True),
        learner_gpu=0,
    )
    actors = [start(place, worker) for worker in range(2)]
    assert ray.get([actor.gpus.remote() for actor in actors], timeout=60.0) == [[0], [0]]
    place.close()
    free_cpus(4)


def test_this_process_has_an_address(cluster):
    assert f"node:{own_address()}" in ray.cluster_resources()
