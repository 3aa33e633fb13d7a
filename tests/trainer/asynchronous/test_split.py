"""The controller, and what following it brings in a model of the two sides and their queue."""

from collections import deque

import pytest
from earl_trainer.asynchronous.split import SplitMeter, SplitWaits, propose_split
from hypothesis import given, settings
from hypothesis import strategies as st


def waits(generation_core_s, learner_core_s):
    return SplitWaits(
        generation_core_s=generation_core_s,
        learner_core_s=learner_core_s,
        generation_idle_share=0.25,
        learner_wait_share=0.0,
    )


def test_the_balanced_split_is_the_share_of_the_work():
    proposal = propose_split(waits(6.2, 3.8), 0.5)
    assert proposal.split == pytest.approx(0.62)
    # Generation on half of the cores takes 12.4, on all of them both take 10.
    assert proposal.gain == pytest.approx(0.24)
    assert proposal.sentence == (
        "a split of 0.62 would make batches follow one another up to 24% faster: generation idles "
        "25% of its time and learning waits 0% of its own"
    )


def test_what_would_bring_less_than_five_per_cent_is_not_proposed():
    proposal = propose_split(waits(5.2, 4.8), 0.5)
    assert proposal.split == 0.5
    assert proposal.gain == pytest.approx(0.04)
    assert proposal.sentence is None


def test_nothing_is_proposed_from_nothing():
    assert propose_split(waits(0.0, 0.0), 0.3).split == 0.3


def simulate(split, num_cores, generation, learning, *, eta=2, num_batches=60):
    """Let both sides work in turn on batches, generation at most eta + 1 ahead.

    Each side's work is (core-seconds that any number of cores divide, seconds that none divides).
    Returns seconds per batch of the later half, and the meter that watched.
    """
    cores = round(split * num_cores), num_cores - round(split * num_cores)
    generate_s = generation[0] / cores[0] + generation[1]
    learn_s = learning[0] / cores[1] + learning[1]
    meter = SplitMeter([cores[0]], cores[1])
    generated, learned, ends = 0.0, 0.0, deque(maxlen=num_batches)
    for number in range(num_batches):
        # A batch may be begun when the one eta + 1 before it was learned from.
        allowed = ends[number - eta - 1] if number > eta else 0.0
        idle_s = max(0.0, allowed - generated)
        generated += idle_s + generate_s
        wait_s = max(0.0, generated - learned)
        meter.add_generation(0, busy_s=generate_s, idle_s=idle_s)
        meter.add_batch(wait_s=wait_s, learn_s=learn_s if number else None)
        learned += wait_s + learn_s
        ends.append(learned)
    return (ends[-1] - ends[num_batches // 2 - 1]) / (num_batches - num_batches // 2), meter


@settings(deadline=None)
@given(
    start=st.floats(0.05, 0.95),
    generation_core_s=st.floats(1.0, 20.0),
    learning_core_s=st.floats(1.0, 20.0),
    serial_share=st.tuples(st.floats(0.0, 0.3), st.floats(0.0, 0.3)),
)
def test_following_proposals_comes_within_five_per_cent_of_the_best_throughput(
    start, generation_core_s, learning_core_s, serial_share
):
    num_cores = 10_000
    generation = generation_core_s, serial_share[0] * generation_core_s / num_cores
    learning = learning_core_s, serial_share[1] * learning_core_s / num_cores
    split, took_s = start, 0.0
    for _ in range(12):
        took_s, meter = simulate(split, num_cores, generation, learning)
        split = meter.propose().split
    grid = [place / 400 for place in range(4, 397)]
    best_s = min(
        max(
            generation[0] / (share * num_cores) + generation[1],
            learning[0] / ((1.0 - share) * num_cores) + learning[1],
        )
        for share in grid
    )
    assert took_s <= 1.05 * best_s * 1.001
    # It stays where it is.
    assert simulate(split, num_cores, generation, learning)[1].propose().sentence is None


def test_the_side_that_waits_is_told():
    _, meter = simulate(0.8, 10, (1.0, 0.0), (4.0, 0.0))
    proposal = meter.propose()
    assert proposal.split == pytest.approx(0.2)
    assert "learning waits 0%" in proposal.reason
    assert "generation idles 94%" in proposal.reason


def test_what_was_generated_before_anybody_learned_does_not_count():
    meter = SplitMeter([1], 1)
    meter.add_generation(0, busy_s=100.0, idle_s=0.0)
    meter.add_batch(wait_s=100.0, learn_s=None)
    assert meter.propose() is None
    meter.add_generation(0, busy_s=3.0, idle_s=0.0)
    meter.add_batch(wait_s=0.0, learn_s=1.0)
    assert meter.propose().split == pytest.approx(0.75)


def test_cores_of_workers_count_each_for_its_own_and_shared_ones_not_at_all():
    meter = SplitMeter([1, 3], 4)
    meter.add_batch(wait_s=0.0, learn_s=1.0)
    for worker in range(2):
        meter.add_generation(worker, busy_s=3.0, idle_s=0.0)
    meter.add_batch(wait_s=0.0, learn_s=0.2)
    # (0.8 x 12) core-seconds of generation, (0.8 (0.8 + 0.2) x 4) of learning.
    assert meter.propose().split == pytest.approx(9.6 / (9.6 + 3.2))
    shared = SplitMeter([1, 3], None)
    shared.add_batch(wait_s=0.0, learn_s=1.0)
    assert shared.propose() is None
