import pytest
from earl_trainer.asynchronous.config import AsynchronousConfig
from earl_trainer.asynchronous.placement import AsyncPlacement, place


def test_the_learner_has_the_cores_that_generation_leaves_it():
    rules = AsynchronousConfig(num_workers=2, num_threads=3)
    assert place(rules, num_cores=16).learner_cores == 10
    assert place(rules, num_cores=4).learner_cores == 1
    assert place(rules, num_cores=16).worker_cores == (3, 3)


@pytest.mark.parametrize(
    ("split", "num_workers", "num_cores", "worker_cores", "learner_cores"),
    [
        (0.62, 2, 16, (5, 5), 6),
        (0.5, 3, 16, (3, 3, 2), 8),
        (0.01, 2, 16, (1, 1), 14),
        (0.99, 2, 16, (8, 7), 1),
        (0.5, 1, 2, (1,), 1),
    ],
)
def test_a_split_is_the_share_of_the_cores_that_workers_divide(
    split, num_workers, num_cores, worker_cores, learner_cores
):
    rules = AsynchronousConfig(num_workers=num_workers, split=split)
    placed = place(rules, num_cores=num_cores)
    assert (placed.worker_cores, placed.learner_cores) == (worker_cores, learner_cores)
    assert placed.split == pytest.approx(sum(worker_cores) / num_cores)


def test_workers_may_differ():
    placed = place(AsynchronousConfig(worker_cores=(1, 2)), num_cores=8)
    assert (placed.num_workers, placed.worker_cores, placed.learner_cores) == (2, (1, 2), 5)
    assert placed.bundles("node:here", worker_gpus=1) == [
        {"CPU": 5.0, "node:here": 0.001},
        {"CPU": 1.0, "GPU": 1.0},
        {"CPU": 2.0, "GPU": 1.0},
    ]
    assert placed.num_cpus == 8


@pytest.mark.parametrize(("way", "strategy"), [("spread", "SPREAD"), ("pack", "PACK")])
def test_workers_go_to_different_machines_or_to_few(way, strategy):
    assert place(AsynchronousConfig(placement=way), num_cores=4).strategy == strategy


def test_colocated_workers_are_where_the_learner_is_and_take_nothing_from_it():
    rules = AsynchronousConfig(num_workers=2, num_threads=4, placement="colocated")
    placed = place(rules, num_cores=4)
    assert (placed.learner_cores, placed.worker_cores) == (4, (4, 4))
    assert (placed.strategy, placed.split, placed.num_cpus) == ("STRICT_PACK", None, 4)
    bundles = placed.bundles("node:here", worker_gpus=0.5)
    assert bundles == [
        {"CPU": 4.0, "node:here": 0.001},
        {"GPU": 0.5, "node:here": 0.001},
        {"GPU": 0.5, "node:here": 0.001},
    ]


def test_the_learner_may_have_a_gpu_for_itself():
    placed = AsyncPlacement(learner_cores=1, worker_cores=(1,))
    assert [each.get("GPU") for each in placed.bundles("node:here", learner_gpus=1)] == [1.0, None]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"worker_cores": (1, 2), "num_workers": 3},
            r"each of asynchronous\.num_workers.* 2 and 3",
        ),
        ({"worker_cores": (1,), "split": 0.5}, r"one way.*worker_cores and asynchronous\.split"),
        ({"num_threads": 2, "split": 0.5}, r"one way.*split and asynchronous\.num_threads"),
        ({"num_workers": 4, "split": 0.5}, r"got 4 cores for 4 workers"),
    ],
)
def test_what_contradicts_itself_or_has_no_room_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        place(AsynchronousConfig(**fields), num_cores=4)
